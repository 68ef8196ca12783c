//! 64-bit Arm: NEON, present on every such processor, with FP16 and dot products where available.

use std::arch::{asm, is_aarch64_feature_detected};

use metier_types::NumberPrecision;

use super::{CHASE_BLOCK, CacheLine, MultiplyKernel, ReadKernel};

/// 16 bytes that all loops multiply: bit patterns of small numbers, so that sums neither overflow
/// nor become subnormal.
#[repr(C, align(16))]
struct NeonOperand<T, const N: usize>([T; N]);

static F64: NeonOperand<f64, 2> = NeonOperand([0.001; 2]);
static F32: NeonOperand<f32, 4> = NeonOperand([0.001; 4]);
/// 0.015625 as a 16-bit float.
static F16: NeonOperand<u16, 8> = NeonOperand([0x2400; 8]);
static I8: NeonOperand<i8, 16> = NeonOperand([1; 16]);

/// One instruction on sixteen independent accumulators, enough for two units of eight cycles
/// latency each.
macro_rules! sixteen {
    ($op:literal, $to:literal, $from:literal) => {
        sixteen!(@ $op, $to, $from, "0" "1" "2" "3" "4" "5" "6" "7" "16" "17" "18" "19" "20" "21" "22" "23")
    };
    (@ $op:literal, $to:literal, $from:literal, $($i:literal)*) => {
        concat!($("movi v", $i, ".16b, #0\n",)* "2:\n",
            $($op, " v", $i, $to, ", v30", $from, ", v31", $from, "\n",)*
            "subs {passes}, {passes}, #1\n", "b.ne 2b\n")
    };
}

macro_rules! kernel {
    ($name:ident, $operand:ident, $extension:literal, $body:expr) => {
        fn $name(passes: u64) {
            if passes == 0 {
                return;
            }
            // SAFETY: `multiply_kernels` detected these instructions. The assembly writes only
            // registers declared as clobbered and reads only the 16 bytes of the operand.
            unsafe {
                asm!(
                    $extension,
                    "ldr q30, [{operand}]",
                    "ldr q31, [{operand}]",
                    $body,
                    passes = inout(reg) passes => _,
                    operand = in(reg) &raw const $operand,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _,
                    out("v7") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _, out("v21") _,
                    out("v22") _, out("v23") _, out("v30") _, out("v31") _,
                    options(nostack, readonly),
                );
            }
        }
    };
}

kernel!(f64_128, F64, "", sixteen!("fmla", ".2d", ".2d"));
kernel!(f32_128, F32, "", sixteen!("fmla", ".4s", ".4s"));
kernel!(f16_128, F16, ".arch_extension fp16", sixteen!("fmla", ".8h", ".8h"));
kernel!(i8_dot, I8, ".arch_extension dotprod", sixteen!("sdot", ".4s", ".16b"));

/// See [`super::multiply_kernels`].
pub fn multiply() -> Vec<MultiplyKernel> {
    let kernel =
        |precision, instructions, per_pass, run| MultiplyKernel { precision, instructions, per_pass, run };
    let mut all = vec![
        kernel(NumberPrecision::F64, "NEON", 16 * 2, f64_128 as fn(u64)),
        kernel(NumberPrecision::F32, "NEON", 16 * 4, f32_128),
    ];
    if is_aarch64_feature_detected!("fp16") {
        all.push(kernel(NumberPrecision::F16, "NEON, FP16", 16 * 8, f16_128));
    }
    if is_aarch64_feature_detected!("dotprod") {
        all.push(kernel(NumberPrecision::I8, "NEON, dot product", 16 * 16, i8_dot));
    }
    all
}

fn read_128(bytes: &[u8]) {
    let blocks = bytes.len() / ReadKernel::BLOCK_BYTES;
    if blocks == 0 {
        return;
    }
    // SAFETY: reads `blocks` whole blocks of 512 bytes, all inside the slice.
    unsafe {
        asm!(
            "2:",
            "ldp q0, q1, [{at}]", "ldp q2, q3, [{at}, #32]", "ldp q4, q5, [{at}, #64]", "ldp q6, q7, [{at}, #96]",
            "ldp q0, q1, [{at}, #128]", "ldp q2, q3, [{at}, #160]", "ldp q4, q5, [{at}, #192]", "ldp q6, q7, [{at}, #224]",
            "ldp q0, q1, [{at}, #256]", "ldp q2, q3, [{at}, #288]", "ldp q4, q5, [{at}, #320]", "ldp q6, q7, [{at}, #352]",
            "ldp q0, q1, [{at}, #384]", "ldp q2, q3, [{at}, #416]", "ldp q4, q5, [{at}, #448]", "ldp q6, q7, [{at}, #480]",
            "add {at}, {at}, #512",
            "subs {blocks}, {blocks}, #1",
            "b.ne 2b",
            at = inout(reg) bytes.as_ptr() => _,
            blocks = inout(reg) blocks => _,
            out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _, out("v7") _,
            options(nostack, readonly),
        );
    }
}

/// See [`super::read_kernel`].
pub fn read() -> ReadKernel {
    ReadKernel { instructions: "NEON", run: read_128 }
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
            "ldr {at}, [{at}]", "ldr {at}, [{at}]", "ldr {at}, [{at}]", "ldr {at}, [{at}]",
            "ldr {at}, [{at}]", "ldr {at}, [{at}]", "ldr {at}, [{at}]", "ldr {at}, [{at}]",
            "ldr {at}, [{at}]", "ldr {at}, [{at}]", "ldr {at}, [{at}]", "ldr {at}, [{at}]",
            "ldr {at}, [{at}]", "ldr {at}, [{at}]", "ldr {at}, [{at}]", "ldr {at}, [{at}]",
            "subs {blocks}, {blocks}, #1",
            "b.ne 2b",
            at = inout(reg) at,
            blocks = inout(reg) blocks => _,
            options(nostack, readonly),
        );
    }
    at
}
