//! Modules, libraries and the linker.

use std::ffi::CStr;
use std::ptr::{null, null_mut};

use cuda_sys::{CUfunction_attribute, CUjitInputType, CUlibrary, CUlinkState, CUmodule, CUresult};

use crate::fixture::{Fixture, PTX, cases};

/// Loads a text, and unloads it again if the driver accepts it. Returns the status of loading it.
fn load(g: &Fixture<'_>, text: &CStr) -> CUresult {
    unsafe {
        let status = g.d.cuModuleLoadData(g.out(), text.as_ptr().cast());
        if status.is_success() {
            let _ = g.d.cuModuleUnload(g.out::<CUmodule>().read());
        }
        status
    }
}

/// Makes a call on a library of the two kernels.
fn library(g: &Fixture<'_>, call: impl FnOnce(CUlibrary) -> CUresult) -> CUresult {
    let mut library = null_mut();
    unsafe {
        let status = g.d.cuLibraryLoadData(
            &raw mut library,
            PTX.as_ptr().cast(),
            null_mut(),
            null_mut(),
            0,
            null_mut(),
            null_mut(),
            0,
        );
        assert!(status.is_success(), "{status}");
        let status = call(library);
        let _ = g.d.cuLibraryUnload(library);
        status
    }
}

/// Makes a call on a linker.
fn linker(g: &Fixture<'_>, call: impl FnOnce(CUlinkState) -> CUresult) -> CUresult {
    let mut linker = null_mut();
    unsafe {
        let status =
            g.d.cuLinkCreate_v2(0, null_mut(), null_mut(), &raw mut linker);
        assert!(status.is_success(), "{status}");
        let status = call(linker);
        let _ = g.d.cuLinkDestroy(linker);
        status
    }
}

cases! { g:
    "module_of_nothing" => g.d.cuModuleLoadData(g.out(), null());
    "module_to_nowhere" => g.d.cuModuleLoadData(null_mut(), PTX.as_ptr().cast());
    "module_of_empty_text" => load(g, c"");
    "module_of_prose" => load(g, c"this is not PTX");
    "module_without_a_version" => load(g, c".target sm_75\n.address_size 64\n.entry k() { ret; }");
    "module_of_a_new_version" => load(g, c".version 99.0\n.target sm_75\n.address_size 64\n.entry k() { ret; }");
    "module_without_a_target" => load(g, c".version 7.0\n.address_size 64\n.entry k() { ret; }");
    "module_for_an_unknown_target" => load(g, c".version 7.0\n.target sm_1\n.address_size 64\n.entry k() { ret; }");
    "module_for_a_newer_target" => load(g, c".version 8.8\n.target sm_120\n.address_size 64\n.entry k() { ret; }");
    "module_of_an_unknown_instruction" => load(g, c".version 7.0\n.target sm_75\n.address_size 64\n.entry k() { frobnicate; ret; }");
    "module_of_an_unknown_register" => load(g, c".version 7.0\n.target sm_75\n.address_size 64\n.entry k() { mov.u32 %r1, 1; ret; }");
    "module_without_a_semicolon" => load(g, c".version 7.0\n.target sm_75\n.address_size 64\n.entry k() { ret }");
    "module_with_a_function_missing" => load(g, c".version 7.0\n.target sm_75\n.address_size 64\n.extern .func f;\n.entry k() { call f; ret; }");
    "module_with_a_name_twice" => load(g, c".version 7.0\n.target sm_75\n.address_size 64\n.entry k() { ret; }\n.entry k() { ret; }");
    "module_of_no_file" => g.d.cuModuleLoad(g.out(), c"no/such/file.ptx".as_ptr());
    "module_of_no_name" => g.d.cuModuleLoad(g.out(), null());
    "module_of_no_fat_binary" => g.d.cuModuleLoadFatBinary(g.out(), null());
    "no_module_unloaded" => g.d.cuModuleUnload(null_mut());
    "function_that_is_not_there" => g.d.cuModuleGetFunction(g.out(), g.module, c"absent".as_ptr());
    "function_of_no_name" => g.d.cuModuleGetFunction(g.out(), g.module, null());
    "function_of_an_empty_name" => g.d.cuModuleGetFunction(g.out(), g.module, c"".as_ptr());
    "function_of_no_module" => g.d.cuModuleGetFunction(g.out(), null_mut(), c"plain".as_ptr());
    "function_to_nowhere" => g.d.cuModuleGetFunction(null_mut(), g.module, c"plain".as_ptr());
    "variable_that_is_not_there" => g.d.cuModuleGetGlobal_v2(g.out(), g.also(), g.module, c"absent".as_ptr());
    "variable_that_is_a_function" => g.d.cuModuleGetGlobal_v2(g.out(), g.also(), g.module, c"plain".as_ptr());
    "variable_of_no_name" => g.d.cuModuleGetGlobal_v2(g.out(), g.also(), g.module, null());
    "loading_mode_to_nowhere" => g.d.cuModuleGetLoadingMode(null_mut());
    "functions_counted_of_no_module" => g.d.cuModuleGetFunctionCount(g.out(), null_mut());
    "functions_counted_to_nowhere" => g.d.cuModuleGetFunctionCount(null_mut(), g.module);
    "functions_listed_to_nowhere" => g.d.cuModuleEnumerateFunctions(null_mut(), 2, g.module);
    "attribute_of_a_function_unknown" => g.d.cuFuncGetAttribute(g.out(), CUfunction_attribute(99), g.plain);
    "attribute_of_no_function" => g.d.cuFuncGetAttribute(g.out(), CUfunction_attribute(0), null_mut());
    "attribute_of_a_function_to_nowhere" => g.d.cuFuncGetAttribute(null_mut(), CUfunction_attribute(0), g.plain);
    "attribute_of_a_function_that_cannot_be_set" => g.d.cuFuncSetAttribute(g.plain, CUfunction_attribute(0), 32);
    "attribute_of_a_function_unknown_set" => g.d.cuFuncSetAttribute(g.plain, CUfunction_attribute(99), 32);
    "shared_memory_allowed_beyond_the_device" => g.d.cuFuncSetAttribute(g.plain, CUfunction_attribute(8), 1 << 20);
    "shared_memory_allowed_negative" => g.d.cuFuncSetAttribute(g.plain, CUfunction_attribute(8), -1);
    "shared_memory_preferred_of_101_percent" => g.d.cuFuncSetAttribute(g.plain, CUfunction_attribute(9), 101);
    "shared_memory_preferred_of_minus_2_percent" => g.d.cuFuncSetAttribute(g.plain, CUfunction_attribute(9), -2);
    "cache_of_a_function_unknown" => g.d.cuFuncSetCacheConfig(g.plain, cuda_sys::CUfunc_cache(9));
    "cache_of_no_function" => g.d.cuFuncSetCacheConfig(null_mut(), cuda_sys::CUfunc_cache(0));
    "module_of_no_function" => g.d.cuFuncGetModule(g.out(), null_mut());
    "name_of_no_function" => g.d.cuFuncGetName(g.out(), null_mut());
    "parameter_beyond" => g.d.cuFuncGetParamInfo(g.plain, 2, g.out(), g.also());
    "parameter_to_nowhere" => g.d.cuFuncGetParamInfo(g.plain, 0, null_mut(), null_mut());
    "parameter_of_no_function" => g.d.cuFuncGetParamInfo(null_mut(), 0, g.out(), g.also());
    "loaded_no_function" => g.d.cuFuncLoad(null_mut());
    "library_of_nothing" => g.d.cuLibraryLoadData(g.out(), null(), null_mut(), null_mut(), 0, null_mut(), null_mut(), 0);
    "library_of_no_file" => g.d.cuLibraryLoadFromFile(g.out(), c"no/such/file.ptx".as_ptr(), null_mut(), null_mut(), 0, null_mut(), null_mut(), 0);
    "no_library_unloaded" => g.d.cuLibraryUnload(null_mut());
    "kernel_that_is_not_there" => library(g, |library| g.d.cuLibraryGetKernel(g.out(), library, c"absent".as_ptr()));
    "kernel_of_no_name" => library(g, |library| g.d.cuLibraryGetKernel(g.out(), library, null()));
    "kernel_of_no_library" => g.d.cuLibraryGetKernel(g.out(), null_mut(), c"plain".as_ptr());
    "variable_of_a_library_that_is_not_there" => library(g, |library| g.d.cuLibraryGetGlobal(g.out(), g.also(), library, c"absent".as_ptr()));
    "managed_variable_that_is_not_managed" => library(g, |library| g.d.cuLibraryGetManaged(g.out(), g.also(), library, c"counter".as_ptr()));
    "unified_function_that_is_not_there" => library(g, |library| g.d.cuLibraryGetUnifiedFunction(g.out(), library, c"absent".as_ptr()));
    "module_of_a_library_without_context" => library(g, |library| g.without_context(|| g.d.cuLibraryGetModule(g.out(), library)));
    "function_of_no_kernel" => g.d.cuKernelGetFunction(g.out(), null_mut());
    "attribute_of_no_kernel" => g.d.cuKernelGetAttribute(g.out(), CUfunction_attribute(0), null_mut(), 0);
    "linker_to_nowhere" => g.d.cuLinkCreate_v2(0, null_mut(), null_mut(), null_mut());
    "linked_data_of_nothing" => linker(g, |linker| g.d.cuLinkAddData_v2(linker, CUjitInputType(1), null_mut(), 16, c"a".as_ptr(), 0, null_mut(), null_mut()));
    "linked_prose" => linker(g, |linker| {
        let mut text = *b"this is not PTX\0";
        g.d.cuLinkAddData_v2(linker, CUjitInputType(1), text.as_mut_ptr().cast(), text.len(), c"a".as_ptr(), 0, null_mut(), null_mut())
    });
    "linked_an_unknown_kind" => linker(g, |linker| {
        let mut text = *b"this is not PTX\0";
        g.d.cuLinkAddData_v2(linker, CUjitInputType(99), text.as_mut_ptr().cast(), text.len(), c"a".as_ptr(), 0, null_mut(), null_mut())
    });
    "linked_no_file" => linker(g, |linker| g.d.cuLinkAddFile_v2(linker, CUjitInputType(1), c"no/such/file.ptx".as_ptr(), 0, null_mut(), null_mut()));
    "linked_nothing" => linker(g, |linker| g.d.cuLinkComplete(linker, g.out(), g.also()));
}
