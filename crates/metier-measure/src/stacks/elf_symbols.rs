//! Function names of an executable file or library.
//!
//! Both symbol tables are read. If the full one was stripped, it is searched by build id in
//! `/usr/lib/debug/.build-id`. A damaged file gives no names.

use std::fs::File;
use std::path::Path;

use object::read::ReadCache;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use super::code_modules::open_regular;

/// Maximum number of names per file.
const MAX_SYMBOLS: usize = 2_000_000;
const MAX_NAME_BYTES: usize = 500;

#[derive(Debug, Clone)]
struct ElfSymbol {
    address: u64,
    size: u64,
    name: Box<str>,
}

/// Functions of one file.
#[derive(Debug, Default)]
pub(super) struct ElfSymbols {
    list: Vec<ElfSymbol>,
    /// Offset in the file, size and address of the loaded segments.
    segments: Vec<(u64, u64, u64)>,
}

impl ElfSymbols {
    /// Reads a file; `proc` leads to the debug files of this host.
    pub(super) fn read(file: File, proc: &Path) -> Option<Self> {
        let cache = ReadCache::new(file);
        let parsed = object::File::parse(&cache).ok()?;
        let segments = parsed
            .segments()
            .map(|segment| {
                let (offset, size) = segment.file_range();
                (offset, size, segment.address())
            })
            .collect();
        let mut symbols = Self { list: Vec::new(), segments };
        symbols.add_symbols(&parsed);
        if parsed.symbols().next().is_none()
            && let Ok(Some(id)) = parsed.build_id()
            && let Some((first, rest)) = id.split_first()
        {
            let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
            let path = format!("self/root/usr/lib/debug/.build-id/{first:02x}/{rest}.debug");
            if let Some(file) = open_regular(&proc.join(path)) {
                let cache = ReadCache::new(file);
                object::File::parse(&cache).iter().for_each(|parsed| symbols.add_symbols(parsed));
            }
        }
        // Of several names for one address, the shortest is usually the best known.
        symbols
            .list
            .sort_by(|a, b| (a.address, a.name.len(), &a.name).cmp(&(b.address, b.name.len(), &b.name)));
        symbols.list.dedup_by_key(|symbol| symbol.address);
        Some(symbols)
    }

    fn add_symbols<'a>(&mut self, file: &impl Object<'a>) {
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if self.list.len() >= MAX_SYMBOLS {
                return;
            }
            let is_code = symbol.kind() == SymbolKind::Text && symbol.is_definition();
            if let (true, Ok(name)) = (is_code && symbol.address() > 0, symbol.name()) {
                let entry = ElfSymbol { address: symbol.address(), size: symbol.size(), name: name.into() };
                self.list.push(entry);
            }
        }
    }

    /// The function at an offset in the file.
    pub(super) fn name_at(&self, offset: u64) -> Option<String> {
        let (start, _, address) = self
            .segments
            .iter()
            .find(|(start, size, _)| (*start..start.saturating_add(*size)).contains(&offset))?;
        let address = offset - start + address;
        let next = self.list.partition_point(|symbol| symbol.address <= address);
        let symbol = self.list.get(next.checked_sub(1)?)?;
        // Hand-written assembly often has no size; its name then extends to the next symbol.
        let is_inside = symbol.size == 0 || address < symbol.address.saturating_add(symbol.size);
        is_inside.then(|| demangle(&symbol.name))
    }
}

/// A name as in the source, without the hash that Rust adds.
pub(super) fn demangle(name: &str) -> String {
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    let mut text = match rustc_demangle::try_demangle(name) {
        Ok(rust) => format!("{rust:#}"),
        Err(_) => name.to_string(),
    };
    if text.len() > MAX_NAME_BYTES {
        let cut = (0..=MAX_NAME_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
    }
    text
}
