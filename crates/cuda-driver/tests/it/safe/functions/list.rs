//! The functions of `crt/math_functions.h`.

/// A function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Statements that set `r` from `a`, `b`, and the pointer `x` to `n` numbers. `T` is the type,
    /// and `F_` the end of the names of its functions.
    pub(super) body: &'static str,
    /// The same function of the host.
    pub(super) host: Option<Host>,
    /// The largest error, in units of the smallest one.
    pub(super) error: f64,
    /// Whether it reads a table of the module, or a local array, for some type.
    pub(super) has_table: bool,
}

/// The functions of one number that `std` does not have.
const OTHER: &[(&str, &str)] = &[
    ("cyl_bessel_i0", "r = cyl_bessel_i0F_(a);"),
    ("cyl_bessel_i1", "r = cyl_bessel_i1F_(a);"),
    ("erf", "r = erfF_(a);"),
    ("erfc", "r = erfcF_(a);"),
    ("erfcinv", "r = erfcinvF_(a);"),
    ("erfcx", "r = erfcxF_(a);"),
    ("erfinv", "r = erfinvF_(a);"),
    ("normcdf", "r = normcdfF_(a);"),
    ("normcdfinv", "r = normcdfinvF_(a);"),
    ("nextafter", "r = nextafterF_(a, b);"),
    ("remainder", "r = remainderF_(a, b);"),
    ("remquo", "int q; r = remquoF_(a, b, &q); r += (T)q;"),
    ("ilogb", "r = (T)ilogbF_(a);"),
    ("logb", "r = logbF_(a);"),
    ("nan", "r = nanF_(\"\");"),
    ("norm", "r = i + 2 < n ? normF_(3, x + i) : (T)0;"),
    ("rnorm", "r = i + 2 < n ? rnormF_(3, x + i) : (T)0;"),
    ("norm3d", "r = norm3dF_(a, b, (T)2);"),
    ("norm4d", "r = norm4dF_(a, b, (T)2, (T)3);"),
    ("rnorm3d", "r = rnorm3dF_(a, b, (T)2);"),
    ("rnorm4d", "r = rnorm4dF_(a, b, (T)2, (T)3);"),
    ("scalbln", "r = scalblnF_(a, (long)-3);"),
    ("lrint", "r = (T)lrintF_(a);"),
    ("lround", "r = (T)lroundF_(a);"),
    ("llrint", "r = (T)llrintF_(a);"),
    ("llround", "r = (T)llroundF_(a);"),
    ("isfinite", "r = isfinite(a) ? (T)1 : (T)0;"),
    ("isinf", "r = isinf(a) ? (T)1 : (T)0;"),
    ("isnan", "r = isnan(a) ? (T)1 : (T)0;"),
    ("signbit", "r = signbit(a) ? (T)1 : (T)0;"),
];

/// The functions without one in `std`, for which some type reads a table or a local array.
const WITH_TABLES: &[(&str, &str)] = &[
    ("j0", "r = j0F_(a);"),
    ("j1", "r = j1F_(a);"),
    ("jn", "r = jnF_(3, a);"),
    ("y0", "r = y0F_(a);"),
    ("y1", "r = y1F_(a);"),
    ("yn", "r = ynF_(3, a);"),
    ("lgamma", "r = lgammaF_(a);"),
    ("tgamma", "r = tgammaF_(a);"),
    ("sinpi", "r = sinpiF_(a);"),
    ("cospi", "r = cospiF_(a);"),
    ("sincospi", "T s, c; sincospiF_(a, &s, &c); r = s + c;"),
    ("sincos", "T s, c; sincosF_(a, &s, &c); r = s + c;"),
];

/// A function of the host.
type Host = fn(f64, f64) -> f64;

/// The functions that `std` has: the error, and whether one reads a table or a local array.
#[rustfmt::skip]
const OF_STD: &[(&str, &str, Host, f64, bool)] = &[
    ("sin", "r = sinF_(a);", |a, _| a.sin(), 1.0, true),
    ("cos", "r = cosF_(a);", |a, _| a.cos(), 1.0, true),
    ("tan", "r = tanF_(a);", |a, _| a.tan(), 1.0, true),
    ("acos", "r = acosF_(a);", |a, _| a.acos(), 1.0, false),
    ("asin", "r = asinF_(a);", |a, _| a.asin(), 1.0, false),
    ("atan", "r = atanF_(a);", |a, _| a.atan(), 1.0, false),
    ("cosh", "r = coshF_(a);", |a, _| a.cosh(), 1.0, false),
    ("sinh", "r = sinhF_(a);", |a, _| a.sinh(), 1.0, false),
    ("tanh", "r = tanhF_(a);", |a, _| a.tanh(), 1.0, false),
    // `std` computes these three from others.
    ("acosh", "r = acoshF_(a);", |a, _| if a > 1e150 { a.ln() + 2f64.ln() } else { a.acosh() }, 100.0, false),
    ("asinh", "r = asinhF_(a);", |a, _| if a.abs() > 1e150 { (a.abs().ln() + 2f64.ln()).copysign(a) } else { a.asinh() }, 100.0, false),
    ("atanh", "r = atanhF_(a);", |a, _| a.atanh(), 100.0, false),
    ("exp", "r = expF_(a);", |a, _| a.exp(), 1.0, false),
    ("exp2", "r = exp2F_(a);", |a, _| a.exp2(), 1.0, false),
    ("exp10", "r = exp10F_(a);", |a, _| 10f64.powf(a), 100.0, false),
    ("expm1", "r = expm1F_(a);", |a, _| a.exp_m1(), 1.0, false),
    ("log", "r = logF_(a);", |a, _| a.ln(), 1.0, false),
    ("log2", "r = log2F_(a);", |a, _| a.log2(), 1.0, false),
    ("log10", "r = log10F_(a);", |a, _| a.log10(), 1.0, false),
    ("log1p", "r = log1pF_(a);", |a, _| a.ln_1p(), 1.0, false),
    ("sqrt", "r = sqrtF_(a);", |a, _| a.sqrt(), 1.0, false),
    ("rsqrt", "r = rsqrtF_(a);", |a, _| if a == 0.0 { a.recip() } else { a.sqrt().recip() }, 1.0, false),
    ("cbrt", "r = cbrtF_(a);", |a, _| a.cbrt(), 1.0, false),
    ("rcbrt", "r = rcbrtF_(a);", |a, _| a.cbrt().recip(), 1.0, false),
    ("ceil", "r = ceilF_(a);", |a, _| a.ceil(), 0.0, false),
    ("floor", "r = floorF_(a);", |a, _| a.floor(), 0.0, false),
    ("trunc", "r = truncF_(a);", |a, _| a.trunc(), 0.0, false),
    ("round", "r = roundF_(a);", |a, _| a.round(), 0.0, false),
    ("rint", "r = rintF_(a);", |a, _| a.round_ties_even(), 0.0, false),
    ("nearbyint", "r = nearbyintF_(a);", |a, _| a.round_ties_even(), 0.0, false),
    ("fabs", "r = fabsF_(a);", |a, _| a.abs(), 0.0, false),
    ("abs", "r = abs(a);", |a, _| a.abs(), 0.0, false),
    ("copysign", "r = copysignF_(a, b);", |a, b| a.copysign(if b.is_nan() { 1.0 } else { b }), 0.0, false),
    ("fdim", "r = fdimF_(a, b);", |a, b| if a <= b { 0.0 } else { a - b }, 1.0, false),
    ("fmax", "r = fmaxF_(a, b);", |a, b| a.max(b), 0.0, false),
    ("fmin", "r = fminF_(a, b);", |a, b| a.min(b), 0.0, false),
    ("max", "r = max(a, b);", |a, b| a.max(b), 0.0, false),
    ("min", "r = min(a, b);", |a, b| a.min(b), 0.0, false),
    ("fmod", "r = fmodF_(a, b);", |a, b| a % b, 0.0, false),
    ("fma", "r = fmaF_(a, (T)2, (T)1);", |a, _| a.mul_add(2.0, 1.0), 1.0, false),
    ("atan2", "r = atan2F_(a, b);", |a, b| a.atan2(b), 4.0, false),
    ("hypot", "r = hypotF_(a, b);", |a, b| a.hypot(b), 1.0, false),
    ("rhypot", "r = rhypotF_(a, b);", |a, b| a.hypot(b).recip(), 2.0, false),
    ("pow", "r = powF_(a, (T)1.5);", |a, _| a.powf(1.5), 10.0, false),
    ("ldexp", "r = ldexpF_(a, 3);", |a, _| a * 8.0, 0.0, false),
    ("scalbn", "r = scalbnF_(a, 3);", |a, _| a * 8.0, 0.0, false),
    ("frexp", "int e; T m = frexpF_(a, &e); r = ldexpF_(m, e);", |a, _| a, 0.0, false),
    ("modf", "T whole; r = modfF_(a, &whole); r += whole;", |a, _| a, 1.0, false),
];

/// All functions.
pub(super) fn cases() -> Vec<Case> {
    let case = |has_table| {
        move |&(name, body): &(&'static str, &'static str)| Case {
            name,
            body,
            host: None,
            error: 0.0,
            has_table,
        }
    };
    let others = OTHER.iter().map(case(false));
    let with_tables = WITH_TABLES.iter().map(case(true));
    let of_std = OF_STD
        .iter()
        .map(|&(name, body, host, error, has_table)| Case {
            name,
            body,
            host: Some(host),
            error,
            has_table,
        });
    of_std.chain(with_tables).chain(others).collect()
}
