//! NumPy's file format for one array: `\x93NUMPY`, version, header length, header as a Python
//! dictionary, elements.
//!
//! Reads and writes little-endian numbers and booleans in C order; reads up to [`MAX_FILE_BYTES`]
//! bytes.

use std::path::Path;

use crate::{Error, NamedTensor, TensorValues};

/// Maximum size of a file in bytes.
pub const MAX_FILE_BYTES: u64 = 4 << 30;
const MAGIC: &[u8] = b"\x93NUMPY";

pub fn read_npy(name: &str, path: &Path) -> Result<NamedTensor, Error> {
    let failed = |source: std::io::Error| Error::Read { path: path.to_path_buf(), source };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    let misfit =
        |got: String, want: &str| Error::Input { name: name.to_string(), got, want: want.to_string() };
    if size > MAX_FILE_BYTES {
        return Err(misfit(format!("a file of {size} bytes"), "one of at most 4 GiB"));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    parse_npy(name, &bytes).ok_or_else(|| {
        misfit(path.display().to_string(), "a NumPy file (.npy) of little-endian numbers in C order")
    })
}

fn parse_npy(name: &str, bytes: &[u8]) -> Option<NamedTensor> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (length, start): (usize, usize) = match rest.first()? {
        1 => (usize::from(u16::from_le_bytes(rest.get(2..4)?.try_into().ok()?)), 4),
        2 | 3 => (usize::try_from(u32::from_le_bytes(rest.get(2..6)?.try_into().ok()?)).ok()?, 6),
        _ => return None,
    };
    let header = std::str::from_utf8(rest.get(start..start.checked_add(length)?)?).ok()?;
    let content = rest.get(start + length..)?;
    let field = |name: &str| Some(header.split_once(&format!("'{name}':"))?.1.trim_start());
    let kind = field("descr")?.strip_prefix('\'')?.split('\'').next()?;
    if !field("fortran_order")?.starts_with("False") {
        return None;
    }
    let sizes = field("shape")?.strip_prefix('(')?.split(')').next()?;
    let sizes = sizes.split(',').map(str::trim).filter(|size| !size.is_empty());
    let shape: Vec<usize> = sizes.map(|size| size.parse().ok()).collect::<Option<_>>()?;
    let count = shape.iter().try_fold(1usize, |count, size| count.checked_mul(*size))?;
    macro_rules! list {
        ($variant:ident, $type:ty) => {{
            let (chunks, rest) = content.as_chunks::<{ size_of::<$type>() }>();
            if !rest.is_empty() {
                return None;
            }
            TensorValues::$variant(chunks.iter().map(|chunk| <$type>::from_le_bytes(*chunk)).collect())
        }};
    }
    let values = match kind {
        "<f4" => list!(Float, f32),
        "<f8" => list!(Double, f64),
        "|i1" => list!(Int8, i8),
        "<i2" => list!(Int16, i16),
        "<i4" => list!(Int32, i32),
        "<i8" => list!(Int64, i64),
        "|u1" => list!(Uint8, u8),
        "<u2" => list!(Uint16, u16),
        "<u4" => list!(Uint32, u32),
        "<u8" => list!(Uint64, u64),
        "|b1" => TensorValues::Bool(content.iter().map(|byte| *byte != 0).collect()),
        _ => return None,
    };
    (values.len() == count).then(|| NamedTensor { name: name.to_string(), shape, values })
}

/// Encodes a tensor as a file.
pub fn encode_npy(tensor: &NamedTensor) -> Vec<u8> {
    let mut content = Vec::new();
    macro_rules! list {
        ($list:expr, $kind:expr) => {{
            $list.iter().for_each(|value| content.extend_from_slice(&value.to_le_bytes()));
            $kind
        }};
    }
    let kind = match &tensor.values {
        TensorValues::Float(list) => list!(list, "<f4"),
        TensorValues::Double(list) => list!(list, "<f8"),
        TensorValues::Int8(list) => list!(list, "|i1"),
        TensorValues::Int16(list) => list!(list, "<i2"),
        TensorValues::Int32(list) => list!(list, "<i4"),
        TensorValues::Int64(list) => list!(list, "<i8"),
        TensorValues::Uint8(list) => list!(list, "|u1"),
        TensorValues::Uint16(list) => list!(list, "<u2"),
        TensorValues::Uint32(list) => list!(list, "<u4"),
        TensorValues::Uint64(list) => list!(list, "<u8"),
        TensorValues::Bool(list) => {
            content.extend(list.iter().map(|flag| u8::from(*flag)));
            "|b1"
        }
    };
    let sizes: String = tensor.shape.iter().map(|size| format!("{size}, ")).collect();
    let mut header =
        format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}), }}", sizes.trim_end());
    // The elements begin at a multiple of 64 bytes; the header ends with a newline.
    let unpadded = MAGIC.len() + 4 + header.len() + 1;
    header.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    header.push('\n');
    let length = u16::try_from(header.len()).unwrap_or(u16::MAX);
    [MAGIC, &[1, 0], &length.to_le_bytes(), header.as_bytes(), &content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_cut_is_refused() {
        let tensors = [
            NamedTensor { name: "a".into(), shape: vec![2, 3], values: TensorValues::Float(vec![1.5; 6]) },
            NamedTensor { name: "a".into(), shape: vec![], values: TensorValues::Int64(vec![-7]) },
            NamedTensor { name: "a".into(), shape: vec![2], values: TensorValues::Bool(vec![true, false]) },
        ];
        for tensor in tensors {
            let file = encode_npy(&tensor);
            assert_eq!(parse_npy("a", &file), Some(tensor));
            for end in 0..file.len() {
                assert_eq!(parse_npy("a", &file[..end]), None, "cut at {end}");
            }
        }
        assert_eq!(parse_npy("a", b"\x93NUMPY\x01\x00\xff\xff"), None);
    }
}
