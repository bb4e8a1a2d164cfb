"""Stores one element past the end of a buffer. The PTX has the source lines of a compiler."""

import ctypes

from driver import Device

PTX = """
.version 8.0
.target sm_75
.address_size 64
.file 1 "fill.cu"
.visible .entry fill(.param .u64 out)
{
    .reg .b64 %out, %at;
    .reg .b32 %t;
    .loc 1 3 5
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    .loc 1 4 9
    mad.wide.u32 %at, %t, 4, %out;
    st.global.u32 [%at], %t;
    ret;
}
"""


def main():
    device = Device(PTX)
    # The buffer has 32 elements, and 33 threads write.
    device.launch("fill", 1, 33, device.upload((ctypes.c_uint * 32)()))


main()
