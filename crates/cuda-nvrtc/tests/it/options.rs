//! The options: their effects, and the NVRTC versions that support them.

use cuda_nvrtc::{
    Arch, CppStandard, Error, FastCompile, NEWER_OPTIONS, Nvrtc, Options, Program, Version,
    WarningKind,
};

use crate::at_hand::{every_nvrtc, nvrtc};

const SOURCE: &str = "extern \"C\" __global__ void k(float *x) { x[0] = x[1] / x[2] + x[3] * x[4] + __fsqrt_rn(x[5]) + sqrtf(x[6]); }";

fn ptx(nvrtc: &Nvrtc, options: &Options) -> String {
    let compiled = Program::new(nvrtc, SOURCE).compile_ptx(options);
    compiled
        .unwrap_or_else(|error| panic!("{error}"))
        .image
        .to_text()
}

/// Each available NVRTC accepts exactly the options that the table says it supports.
#[test]
fn table_agrees_with_nvrtc() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file").display().to_string();
    let folder = dir.path().display().to_string();
    for nvrtc in every_nvrtc() {
        for known in &NEWER_OPTIONS {
            let value = match known.name {
                "--brief-diagnostics"
                | "--device-stack-protector"
                | "--pch-verbose"
                | "--pch-messages"
                | "--instantiate-templates-in-pch" => "true",
                "--time" => "-",
                "--jump-table-density" | "--frandom-seed" | "--fmax-errors" => "7",
                "--Ofast-compile" => "max",
                "--warning-as-error" => "all-warnings",
                "--fdevice-time-trace" | "--create-pch" | "--use-pch" => &file,
                "--pch-dir" | "--use-bundled-headers" => &folder,
                _ => "",
            };
            for name in [known.name, known.short] {
                let option = match value {
                    "" => name.to_owned(),
                    value => format!("{name}={value}"),
                };
                // Calls the raw library, because this crate would reject the option.
                let accepted = accepts(&nvrtc, &option);
                let expected = known.since <= nvrtc.version();
                assert_eq!(accepted, expected, "{option}, NVRTC {}", nvrtc.version());
                if !accepted {
                    // SAFETY: NVRTC must not read a file that changes ← it does not know the
                    // option.
                    let options = unsafe { Options::new().raw_unchecked(&option) };
                    let error = Program::new(&nvrtc, "").compile_ptx(&options);
                    let error = error.unwrap_err();
                    let Error::OptionTooNew { since, found, .. } = &error else {
                        panic!("{error}");
                    };
                    assert_eq!((*since, *found), (known.since, nvrtc.version()));
                    let text = error.to_string();
                    for part in [&option, &since.to_string(), &found.to_string()] {
                        assert!(text.contains(part), "{text}");
                    }
                }
            }
        }
    }
}

fn accepts(nvrtc: &Nvrtc, option: &str) -> bool {
    use std::ffi::CString;
    use std::ptr;

    let table = nvrtc.as_raw().table();
    let option = CString::new(option).unwrap();
    let mut program = ptr::null_mut();
    let mut log = vec![0_u8; 0];
    let (create, compile) = (
        table.nvrtcCreateProgram.unwrap(),
        table.nvrtcCompileProgram.unwrap(),
    );
    let (size_of, read) = (
        table.nvrtcGetProgramLogSize.unwrap(),
        table.nvrtcGetProgramLog.unwrap(),
    );
    // SAFETY: the strings must be NUL-terminated and the handle writable ← C literals and a local.
    let status = unsafe {
        create(
            &raw mut program,
            c"".as_ptr(),
            c"k.cu".as_ptr(),
            0,
            ptr::null(),
            ptr::null(),
        )
    };
    assert_eq!(status.0, 0);
    // SAFETY: the program must be alive, and there must be one option ← created above.
    unsafe { compile(program, 1, &option.as_ptr()) };
    let mut size = 0;
    // SAFETY: the program must be alive and the size writable ← created above, and a local.
    unsafe { size_of(program, &raw mut size) };
    log.resize(size, 0);
    // SAFETY: there must be room for `size` bytes ← allocated above.
    unsafe { read(program, log.as_mut_ptr().cast()) };
    // SAFETY: the program must be alive and not used again ← this is its last use.
    unsafe { table.nvrtcDestroyProgram.unwrap()(&raw mut program) };
    let log = String::from_utf8_lossy(&log);
    // A value that is invalid for the architecture or the file system does not make the option
    // unknown.
    let unknown = [
        "unrecognized option",
        "invalid value for",
        "invalid argument for option",
    ];
    !unknown.iter().any(|words| log.contains(words))
}

#[test]
fn arithmetic_options_take_effect() {
    for nvrtc in every_nvrtc() {
        let plain = ptx(&nvrtc, &Options::new());
        assert!(
            plain.contains("div.rn.f32") && plain.contains("fma.rn.f32"),
            "{plain}"
        );
        assert!(plain.contains("sqrt.rn.f32"), "{plain}");
        let fast = ptx(&nvrtc, &Options::new().fast_math(true));
        assert!(
            fast.contains("div.approx.ftz.f32") && fast.contains("sqrt.approx.ftz.f32"),
            "{fast}"
        );
        let taken_back = ptx(&nvrtc, &Options::new().fast_math(true).fast_math(false));
        assert_eq!(taken_back, plain);
        let ftz = ptx(&nvrtc, &Options::new().ftz(true));
        assert!(ftz.contains("div.rn.ftz.f32"), "{ftz}");
        let division = ptx(&nvrtc, &Options::new().prec_div(false));
        assert!(
            division.contains("div.full.f32") && division.contains("sqrt.rn.f32"),
            "{division}"
        );
        let root = ptx(&nvrtc, &Options::new().prec_sqrt(false));
        assert!(
            root.contains("div.rn.f32") && root.contains("sqrt.approx.f32"),
            "{root}"
        );
        let apart = ptx(&nvrtc, &Options::new().fmad(false));
        assert!(!apart.contains("fma.rn.f32"), "{apart}");
    }
}

#[test]
fn registers_debug_and_lines() {
    for nvrtc in every_nvrtc() {
        let plain = ptx(&nvrtc, &Options::new());
        assert!(
            !plain.contains(".maxnreg") && !plain.contains(".loc"),
            "{plain}"
        );
        let lines = ptx(&nvrtc, &Options::new().line_info(true));
        assert!(lines.contains("\t.loc\t1 1"), "{lines}");
        let debug = ptx(&nvrtc, &Options::new().debug(true));
        assert!(
            debug.contains(".target") && debug.contains("debug"),
            "{debug}"
        );
        assert!(debug.contains(".debug_info"), "{debug}");
        let linked = ptx(&nvrtc, &Options::new().relocatable(true));
        assert!(linked.contains(".entry k("), "{linked}");
        // The assembler reports the number of registers.
        let source = "extern \"C\" __global__ void k(float *x) { float s[60]; for (int i = 0; i < 60; ++i) \
                      s[i] = x[i]; __syncthreads(); for (int i = 0; i < 60; ++i) x[i] = s[59 - i] * s[i]; }";
        let options = Options::new().arch(Arch::sm(8, 0)).ptxas("-v");
        let registers = |options: &Options| {
            let log = Program::new(&nvrtc, source)
                .compile_cubin(options)
                .unwrap()
                .log;
            let text = log
                .as_str()
                .split("Used ")
                .nth(1)
                .unwrap()
                .split(' ')
                .next();
            text.unwrap().parse::<u32>().unwrap()
        };
        let (free, tight) = (
            registers(&options),
            registers(&options.clone().max_registers(32)),
        );
        assert!(free > 32 && tight <= 32, "{free} and {tight} registers");
    }
}

#[test]
fn macros_and_standards() {
    for nvrtc in every_nvrtc() {
        let check = |source: &str, options: &Options| {
            Program::new(&nvrtc, source)
                .compile_ptx(options)
                .map(|_| ())
        };
        let options = Options::new()
            .define("N", 3)
            .define_flag("F")
            .define("G", 1)
            .undefine("G");
        check(
            "static_assert(N == 3 && F == 1, \"\");\n#ifdef G\n#error G\n#endif\n",
            &options,
        )
        .unwrap();
        for (standard, value) in [
            (CppStandard::Cpp11, "201103L"),
            (CppStandard::Cpp14, "201402L"),
            (CppStandard::Cpp17, "201703L"),
            (CppStandard::Cpp20, "202002L"),
        ] {
            let source = format!("static_assert(__cplusplus == {value}, \"\");");
            check(&source, &Options::new().std(standard)).unwrap();
        }
        let newest = check("", &Options::new().std(CppStandard::Cpp23));
        assert_eq!(
            newest.is_ok(),
            nvrtc.version() >= Version::new(13030),
            "{newest:?}"
        );
        let host =
            "int twice(int a) { return 2 * a; } __global__ void k(int *x) { x[0] = twice(x[0]); }";
        check(host, &Options::new()).unwrap_err();
        check(host, &Options::new().default_device(true)).unwrap();
        check("__device__ __int128 a;", &Options::new().int128(true)).unwrap();
    }
}

#[test]
fn folders_and_headers_before_the_source() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("answer.h"), "#define ANSWER 42\n").unwrap();
    for nvrtc in every_nvrtc() {
        let source = "#include <answer.h>\nstatic_assert(ANSWER == 42, \"\");";
        let program = Program::new(&nvrtc, source);
        program.compile_ptx(&Options::new()).unwrap_err();
        program
            .compile_ptx(&Options::new().include_dir(dir.path()))
            .unwrap();
        let program = Program::new(&nvrtc, "static_assert(EARLY == 7, \"\");")
            .header("e.h", "#define EARLY 7");
        program
            .compile_ptx(&Options::new().pre_include("e.h"))
            .unwrap();
    }
}

#[test]
fn message_options_take_effect() {
    let Some(nvrtc) = nvrtc() else { return };
    let warned = Program::new(&nvrtc, "__global__ void k() { int unused; }");
    let log = |options: &Options| warned.compile_ptx(options).unwrap().log;
    assert!(log(&Options::new().disable_warnings(true)).is_empty());
    // NVRTC 12.0 always prints brief messages.
    assert_eq!(
        log(&Options::new()).as_str().contains('^'),
        nvrtc.version() >= Version::new(12010)
    );
    if nvrtc.version() >= Version::new(12010) {
        assert!(
            !log(&Options::new().brief_diagnostics(true))
                .as_str()
                .contains('^')
        );
        assert!(
            log(&Options::new().time_report(true))
                .as_str()
                .contains("CUDA C++ Frontend")
        );
    }
    if nvrtc.version() >= Version::new(13010) {
        let options = Options::new().warnings_as_errors(WarningKind::All);
        warned.compile_ptx(&options).unwrap_err();
        log(&Options::new().warnings_as_errors(WarningKind::Reorder));
    }
    if nvrtc.version() >= Version::new(13040) {
        let many: String = (0..20).map(|i| format!("int a{i} = b{i};\n")).collect();
        let error = Program::new(&nvrtc, many).compile_ptx(&Options::new().max_errors(3));
        let Err(Error::Compile(error)) = error else {
            panic!("it compiles")
        };
        assert!(error.errors().count() <= 4, "{error}");
    }
}

/// Options whose effect is not visible in the output are at least accepted by every NVRTC that
/// supports them.
#[test]
fn nvrtc_accepts_the_options_of_all_methods() {
    for nvrtc in every_nvrtc() {
        let base = Options::new().arch(Arch::sm(9, 0));
        let mut tried = vec![
            (12000, base.clone().extra_vectorization(true)),
            (12000, base.clone().ptxas_opt_level(1)),
            (12000, base.clone().split_compile(2)),
            (12000, base.clone().debug(true).optimize_debug(true)),
            (12000, base.clone().no_source_include(true)),
            (12000, base.clone().error_to_warning(177)),
            (12000, base.clone().restrict(true)),
            (12040, base.clone().max_threads_per_block(128)),
            (12040, base.clone().minimal(true)),
            (13000, base.clone().precompiled_headers(true)),
            (12090, base.clone().no_cache(true)),
            (13030, base.clone().tile(true)),
            (
                13040,
                base.clone().finite_math_only(true).no_signed_zeros(true),
            ),
        ];
        for (since, level) in [
            (12050, FastCompile::Off),
            (12090, FastCompile::Min),
            (12090, FastCompile::Mid),
            (12050, FastCompile::Max),
        ] {
            tried.push((since, base.clone().fast_compile(level)));
        }
        if nvrtc
            .supported_archs()
            .unwrap()
            .contains(&Arch::compute(10, 0))
        {
            let options = Options::new().arch(Arch::sm(10, 0)).float128(true);
            tried.push((12060, options));
        }
        for (since, options) in tried {
            if nvrtc.version() >= Version::new(since) {
                let result = Program::new(&nvrtc, SOURCE).compile_cubin(&options);
                result.unwrap_or_else(|error| panic!("{:?}: {error}", options.to_strings()));
            }
        }
    }
}

#[test]
fn an_unknown_option_is_reported_with_all_options() {
    for nvrtc in every_nvrtc() {
        let options = Options::new().ftz(true).raw("--no-such-option");
        let error = Program::new(&nvrtc, SOURCE)
            .compile_ptx(&options)
            .unwrap_err();
        assert!(matches!(&error, Error::InvalidOption { .. }), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains("unrecognized option --no-such-option"),
            "{text}"
        );
        assert!(text.contains("--ftz=true"), "{text}");
    }
}
