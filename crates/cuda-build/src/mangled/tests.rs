use super::{Type, function, list};

/// Returns the parameters of the kernel whose type is the argument of the helper `h`.
fn parameters(mangled: &str) -> String {
    match function(mangled).and_then(|found| found.first_argument) {
        Some(Type::Pointer(inner)) => match *inner {
            Type::Function(parameters) => list(&parameters),
            other => panic!("{other}"),
        },
        other => panic!("{mangled}: {other:?}"),
    }
}

/// The names are those that NVRTC 13.5 writes.
#[test]
fn the_type_of_a_kernel_is_read_from_a_helper() {
    for (mangled, expected) in [
        ("_Z1hIPFvvEEvv", ""),
        ("_Z1hIPFvPffjEEvv", "float *, float, unsigned int"),
        ("_Z1hIPFvPfPKfEEvv", "float *, const float *"),
        (
            "_Z20cuda_build_signatureIPFvPffjPKfPKd6ParamsPKS5_bclxyhsmPVKf6float4PSA_EEvv",
            "float *, float, unsigned int, const float *, const double *, Params, \
             const Params *, bool, char, long, long long, unsigned long long, unsigned char, \
             short, unsigned long, const volatile float *, float4, float4 *",
        ),
        (
            "_Z20cuda_build_signatureIPFvN2ns2P2EPKS1_PNS0_1VIfEEEEvv",
            "ns::P2, const ns::P2 *, ns::V<float> *",
        ),
        (
            "_Z20cuda_build_signatureIPFvPiPvPPfS0_PFfiEEEvv",
            "int *, void *, float **, int *, function (int) *",
        ),
        ("_Z1hIPDoFviEEvv", "int"),
        ("_Z1hIPFvRA4_KiEEvv", "const int[4] &"),
        ("_Z1hIPFvPKPfEEvv", "float * const *"),
        ("_Z1hIPFv1AILi3ELb1ELin2EEEEvv", "A<3, true, -2>"),
    ] {
        assert_eq!(parameters(mangled), expected, "{mangled}");
    }
}

#[test]
fn a_kernel_in_cpp_states_its_parameters() {
    for (mangled, name, expected) in [
        (
            "_Z5plainPiPvPPfS_PFfiE",
            "plain",
            "int *, void *, float **, int *, function (int) *",
        ),
        ("_Z2stPi", "st", "int *"),
        ("_ZL2stv", "st", ""),
        (
            "_ZN2ns3nskENS_2P2EPKS0_PNS_1VIfEE",
            "ns::nsk",
            "ns::P2, const ns::P2 *, ns::V<float> *",
        ),
        (
            "_ZN36_GLOBAL__N__00000000_4_a_cu_ae48cebe4anonEPi",
            "(anonymous namespace)::anon",
            "int *",
        ),
    ] {
        let found = function(mangled).unwrap_or_else(|| panic!("{mangled}"));
        assert_eq!(found.name, name);
        assert_eq!(list(&found.parameters.unwrap()), expected, "{mangled}");
    }
}

/// The parameters of a template may contain expressions, and are not parsed.
#[test]
fn an_instance_of_a_template_has_its_arguments() {
    for (mangled, name) in [
        ("_Z4tmplIfEvPT_PKS0_", "tmpl<float>"),
        ("_ZN2ns4tmplIdLi2EEEvPT_S2_i", "ns::tmpl<double, 2>"),
        ("_Z1fIL4Kind1ELj3EEvv", "f<(Kind)1, 3>"),
        ("_Z1fIJfPKiEEvv", "f<float, const int *>"),
        ("_ZN1a6hiddenILi3EEEvPAT__i", "a::hidden<3>"),
    ] {
        let found = function(mangled).unwrap_or_else(|| panic!("{mangled}"));
        assert_eq!((found.name.as_str(), found.parameters), (name, None));
    }
}

#[test]
fn other_texts_are_refused() {
    let deep = format!("_Z1f{}i", "P".repeat(100_000));
    for text in [
        "",
        "scale",
        "_Z",
        "_Z5f",
        "_Z1f",
        "_Z1fS_",
        "_Z1fT_",
        "_Z1fPq",
        "_Z1fIXadEEvv",
        "_Z99f",
        "_Z1hIPFvfEv",
        "_ZN1a",
        "_Z1fS9999999999999999999999_",
        &deep,
    ] {
        let found = function(text).filter(|found| found.parameters != Some(Vec::new()));
        assert_eq!(found, None, "{text:.40}");
    }
}
