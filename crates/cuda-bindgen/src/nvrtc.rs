//! The version of NVRTC that introduced each function. No header states it, so it is listed here.
//!
//! Source: the headers and exported symbols of the fifteen releases from 12.0 to 13.5.

use crate::Error;
use crate::model::Model;

/// The functions newer than 12.0, with the version that introduced them.
const INTRODUCED: [(&str, u32); 10] = [
    ("nvrtcGetPCHHeapSize", 12080),
    ("nvrtcSetPCHHeapSize", 12080),
    ("nvrtcGetPCHCreateStatus", 12080),
    ("nvrtcGetPCHHeapSizeRequired", 12080),
    ("nvrtcSetFlowCallback", 12080),
    ("nvrtcGetTileIR", 13020),
    ("nvrtcGetTileIRSize", 13020),
    ("nvrtcInstallBundledHeaders", 13030),
    ("nvrtcGetBundledHeadersInfo", 13030),
    ("nvrtcRemoveBundledHeaders", 13030),
];

/// The functions of the oldest supported release.
const BASE: [&str; 20] = [
    "nvrtcAddNameExpression",
    "nvrtcCompileProgram",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetCUBIN",
    "nvrtcGetCUBINSize",
    "nvrtcGetErrorString",
    "nvrtcGetLTOIR",
    "nvrtcGetLTOIRSize",
    "nvrtcGetLoweredName",
    "nvrtcGetNumSupportedArchs",
    "nvrtcGetNVVM",
    "nvrtcGetNVVMSize",
    "nvrtcGetOptiXIR",
    "nvrtcGetOptiXIRSize",
    "nvrtcGetPTX",
    "nvrtcGetPTXSize",
    "nvrtcGetProgramLog",
    "nvrtcGetProgramLogSize",
    "nvrtcGetSupportedArchs",
];

/// Sets the version of every function of the model.
///
/// A function in neither list is an error, so that it is added to a list when the pinned header is
/// updated.
pub(crate) fn add_versions(model: &mut Model) -> Result<(), Error> {
    for (name, function) in &mut model.functions {
        function.since = match INTRODUCED.iter().find(|(known, _)| known == name) {
            Some((_, since)) => *since,
            None if BASE.contains(&name.as_str()) || name == "nvrtcVersion" => 12000,
            None => {
                return Err(Error::Header(format!(
                    "{name}: add the release that introduced it to cuda-bindgen/src/nvrtc.rs"
                )));
            }
        };
    }
    Ok(())
}
