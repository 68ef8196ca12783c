//! x86-64: AVX-512 (VNNI and FP16 if available), AVX2 with FMA (AVX-VNNI if available), else
//! portable.

use std::arch::asm;

use metier_types::NumberPrecision;

use super::{CHASE_BLOCK, CacheLine, MultiplyKernel, ReadKernel, portable};

/// 64 bytes that all loops multiply: bit patterns of small numbers, so that sums neither overflow
/// nor become subnormal.
#[repr(C, align(64))]
struct AvxOperand<T, const N: usize>([T; N]);

static F64: AvxOperand<f64, 8> = AvxOperand([0.001; 8]);
static F32: AvxOperand<f32, 16> = AvxOperand([0.001; 16]);
/// 0.015625 as a 16-bit float.
static F16: AvxOperand<u16, 32> = AvxOperand([0x2400; 32]);
static I8: AvxOperand<i8, 64> = AvxOperand([1; 64]);

/// One instruction on twelve independent accumulators, enough for two units of five cycles latency
/// each.
macro_rules! twelve {
    ($op:literal, $register:literal) => {
        twelve!(@ $op, $register, "0" "1" "2" "3" "4" "5" "6" "7" "8" "9" "10" "11")
    };
    (@ $op:literal, $register:literal, $($i:literal)*) => {
        concat!("2:\n", $($op, " ", $register, $i, ", ", $register, "12, ", $register, "13\n",)*
            "dec {passes}\n", "jnz 2b\n")
    };
}

/// Products of 8-bit integers in three steps, on four accumulators with a scratch register each.
macro_rules! three_steps {
    ($(($acc:literal $scratch:literal))*) => {
        concat!("vpcmpeqw ymm14, ymm14, ymm14\n", "vpsrlw ymm14, ymm14, 15\n", "2:\n",
            $("vpmaddubsw ymm", $scratch, ", ymm12, ymm13\n",)*
            $("vpmaddwd ymm", $scratch, ", ymm", $scratch, ", ymm14\n",)*
            $("vpaddd ymm", $acc, ", ymm", $acc, ", ymm", $scratch, "\n",)*
            "dec {passes}\n", "jnz 2b\n")
    };
}

macro_rules! kernel {
    ($name:ident, $operand:ident, $register:literal, $body:expr) => {
        fn $name(passes: u64) {
            if passes == 0 {
                return;
            }
            // SAFETY: `multiply_kernels` detected these instructions. The assembly writes only
            // registers declared as clobbered and reads only the 64 bytes of the operand.
            unsafe {
                asm!(
                    "vxorps xmm0, xmm0, xmm0", "vxorps xmm1, xmm1, xmm1", "vxorps xmm2, xmm2, xmm2",
                    "vxorps xmm3, xmm3, xmm3", "vxorps xmm4, xmm4, xmm4", "vxorps xmm5, xmm5, xmm5",
                    "vxorps xmm6, xmm6, xmm6", "vxorps xmm7, xmm7, xmm7", "vxorps xmm8, xmm8, xmm8",
                    "vxorps xmm9, xmm9, xmm9", "vxorps xmm10, xmm10, xmm10", "vxorps xmm11, xmm11, xmm11",
                    concat!("vmovups ", $register, "12, [{operand}]"),
                    concat!("vmovups ", $register, "13, [{operand}]"),
                    $body,
                    "vzeroupper",
                    passes = inout(reg) passes => _,
                    operand = in(reg) &raw const $operand,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                    out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack, readonly),
                );
            }
        }
    };
}

kernel!(f64_512, F64, "zmm", twelve!("vfmadd231pd", "zmm"));
kernel!(f32_512, F32, "zmm", twelve!("vfmadd231ps", "zmm"));
kernel!(f16_512, F16, "zmm", twelve!("vfmadd231ph", "zmm"));
kernel!(i8_512, I8, "zmm", twelve!("vpdpbusd", "zmm"));
kernel!(f64_256, F64, "ymm", twelve!("vfmadd231pd", "ymm"));
kernel!(f32_256, F32, "ymm", twelve!("vfmadd231ps", "ymm"));
kernel!(i8_256_vnni, I8, "ymm", twelve!("{{vex}} vpdpbusd", "ymm"));
kernel!(i8_256, I8, "ymm", three_steps!(("0" "4") ("1" "5") ("2" "6") ("3" "7")));

/// See [`super::multiply_kernels`].
pub fn multiply() -> Vec<MultiplyKernel> {
    let wide = is_x86_feature_detected!("avx512f");
    let middle = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    let kernel =
        |precision, instructions, per_pass, run| MultiplyKernel { precision, instructions, per_pass, run };
    let mut all = Vec::new();
    if wide {
        all.push(kernel(NumberPrecision::F64, "AVX-512", 12 * 8, f64_512 as fn(u64)));
        all.push(kernel(NumberPrecision::F32, "AVX-512", 12 * 16, f32_512));
        if is_x86_feature_detected!("avx512fp16") {
            all.push(kernel(NumberPrecision::F16, "AVX-512 FP16", 12 * 32, f16_512));
        }
    } else if middle {
        all.push(kernel(NumberPrecision::F64, "AVX2, FMA", 12 * 4, f64_256 as fn(u64)));
        all.push(kernel(NumberPrecision::F32, "AVX2, FMA", 12 * 8, f32_256));
    } else {
        return portable::multiply();
    }
    if wide && is_x86_feature_detected!("avx512vnni") {
        all.push(kernel(NumberPrecision::I8, "AVX-512 VNNI", 12 * 64, i8_512));
    } else if middle && is_x86_feature_detected!("avxvnni") {
        all.push(kernel(NumberPrecision::I8, "AVX-VNNI", 12 * 32, i8_256_vnni));
    } else if middle {
        all.push(kernel(NumberPrecision::I8, "AVX2", 4 * 32, i8_256));
    }
    all
}

macro_rules! reader {
    ($name:ident, $load:literal, $register:literal, $($at:literal)*) => {
        fn $name(bytes: &[u8]) {
            let blocks = bytes.len() / ReadKernel::BLOCK_BYTES;
            if blocks == 0 {
                return;
            }
            // SAFETY: reads `blocks` whole blocks of 512 bytes, all inside the slice; `read_kernel`
            // detected these instructions.
            unsafe {
                asm!(
                    "2:",
                    concat!($($load, " ", $register, "0, [{at} + ", $at, "]\n",)*),
                    "add {at}, 512",
                    "dec {blocks}",
                    "jnz 2b",
                    concat!($load, " xmm0, xmm0"),
                    at = inout(reg) bytes.as_ptr() => _,
                    blocks = inout(reg) blocks => _,
                    out("xmm0") _,
                    options(nostack, readonly),
                );
            }
        }
    };
}

reader!(read_512, "vmovups", "zmm", "0" "64" "128" "192" "256" "320" "384" "448");
reader!(read_256, "vmovups", "ymm", "0" "32" "64" "96" "128" "160" "192" "224" "256" "288" "320" "352" "384" "416" "448" "480");
reader!(read_128, "movups", "xmm", "0" "16" "32" "48" "64" "80" "96" "112" "128" "144" "160" "176" "192" "208" "224" "240"
    "256" "272" "288" "304" "320" "336" "352" "368" "384" "400" "416" "432" "448" "464" "480" "496");

/// See [`super::read_kernel`].
pub fn read() -> ReadKernel {
    if is_x86_feature_detected!("avx512f") {
        ReadKernel { instructions: "AVX-512", run: read_512 }
    } else if is_x86_feature_detected!("avx2") {
        ReadKernel { instructions: "AVX2", run: read_256 }
    } else {
        ReadKernel { instructions: "SSE2", run: read_128 }
    }
}

/// See [`super::chase_pointers`].
///
/// # Safety
/// Every line reachable from `start` links to another live line.
pub unsafe fn chase(start: &CacheLine, steps: u64) -> *const CacheLine {
    let blocks = steps.div_ceil(CHASE_BLOCK);
    let mut at: *const CacheLine = start;
    if blocks == 0 {
        return at;
    }
    // SAFETY: the caller guarantees that every link leads to a line; a line's first field is its
    // link.
    unsafe {
        asm!(
            "2:",
            "mov {at}, [{at}]", "mov {at}, [{at}]", "mov {at}, [{at}]", "mov {at}, [{at}]",
            "mov {at}, [{at}]", "mov {at}, [{at}]", "mov {at}, [{at}]", "mov {at}, [{at}]",
            "mov {at}, [{at}]", "mov {at}, [{at}]", "mov {at}, [{at}]", "mov {at}, [{at}]",
            "mov {at}, [{at}]", "mov {at}, [{at}]", "mov {at}, [{at}]", "mov {at}, [{at}]",
            "dec {blocks}",
            "jnz 2b",
            at = inout(reg) at,
            blocks = inout(reg) blocks => _,
            options(nostack, readonly),
        );
    }
    at
}
