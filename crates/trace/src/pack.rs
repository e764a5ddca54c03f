//! Packs a trace. In: a trace of a process that has ended. Out: the same file, smaller. The recorder cannot do this, because it runs inside
//! the recorded program and must not allocate.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use allocanary_sys::private;
use flate2::{Compress, Compression, FlushCompress, Status};

use crate::error::{Error, Result};
use crate::format::{CHUNK_HEADER, Chunk, HEADER, PACK_HEADER, PACK_MAGIC, PACKED, TableHeader, TraceHeader, at};
use crate::reader::Headers;

/// The level of compression, from 1 to 9. Level 3 takes some 10 ms for a MiB. Level 6 takes twice the time, for files that are a tenth to a
/// quarter smaller.
const LEVEL: u32 = 3;

/// Packs a trace, and returns the new length of its file. Returns `None` and leaves the trace as it is if its process may still write, if
/// it is already packed, damaged or cut, or if it would not become smaller. It does the same if the trace belongs to another user, who
/// would not own the new file.
pub fn pack(path: &Path) -> Result<Option<u64>> {
    let failed = |error| Error::file(path, "packing the trace", error);
    let file = File::open(path).map_err(failed)?;
    let mut bytes = [0; HEADER];
    file.read_exact_at(&mut bytes, 0).map_err(failed)?;
    let header = TraceHeader::read(&bytes).map_err(|error| Error::file(path, "packing the trace", error))?;
    let runs = crate::record::may_write(&header);
    let meta = file.metadata().map_err(failed)?;
    if runs || header.is_packed || header.used > meta.len() || meta.uid() != private::user() {
        return Ok(None);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (fresh, name) = private::new_file_in(folder).map_err(failed)?;
    let packed = write(&file, path, &header, &mut bytes, BufWriter::with_capacity(1 << 18, fresh));
    let placed = packed.and_then(|length| match length.filter(|length| *length < meta.len()) {
        Some(length) => {
            fs::set_permissions(&name, meta.permissions()).and_then(|()| fs::rename(&name, path)).map_err(failed)?;
            Ok(Some(length))
        }
        None => Ok(None),
    });
    if !matches!(placed, Ok(Some(_))) {
        drop(fs::remove_file(&name));
    }
    placed
}

/// Writes the packed form, and returns its length; `None` if the file has bytes that are not a chunk.
fn write(
    file: &File,
    path: &Path,
    header: &TraceHeader,
    head: &mut [u8; HEADER],
    mut out: BufWriter<File>,
) -> Result<Option<u64>> {
    let failed = |error| Error::file(path, "packing the trace", error);
    head[at::PARTS] |= PACKED as u8;
    out.write_all(head).map_err(failed)?;
    let mut headers = Headers::new(path);
    let mut deflater = Compress::new(Compression::new(LEVEL), false);
    let (mut body, mut small) = (Vec::new(), Vec::new());
    let (mut offset, mut written) = (HEADER as u64, HEADER as u64);
    while offset + CHUNK_HEADER as u64 <= header.used {
        let Some(bytes) = headers.at(file, offset)? else { return Ok(None) };
        let table = || TableHeader::read(bytes, offset).filter(|_| header.stacks > 0).map(|table| table.length);
        let Some(length) = Chunk::read(bytes, offset).map(|chunk| chunk.length).or_else(table) else {
            let Some(gap) = header.gap(bytes, offset) else { return Ok(None) };
            offset += gap;
            continue;
        };
        if offset + u64::from(length) > header.used {
            return Ok(None);
        }
        body.resize(length as usize - CHUNK_HEADER, 0);
        file.read_exact_at(&mut body, offset + CHUNK_HEADER as u64).map_err(failed)?;
        let stored = if deflate(&mut deflater, &body, &mut small).map_err(failed)? { &small } else { &body };
        let mut front = [0; PACK_HEADER];
        front[..4].copy_from_slice(&PACK_MAGIC);
        front[4..8].copy_from_slice(&(stored.len() as u32).to_le_bytes());
        front[8..16].copy_from_slice(&offset.to_le_bytes());
        front[16..].copy_from_slice(bytes);
        out.write_all(&front).and_then(|()| out.write_all(stored)).map_err(failed)?;
        offset += u64::from(length);
        written += (PACK_HEADER + stored.len()) as u64;
    }
    out.flush().map_err(failed)?;
    Ok(Some(written))
}

/// Deflates bytes, and returns whether the result is smaller.
fn deflate(deflater: &mut Compress, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<bool> {
    deflater.reset();
    // If the result does not fit, it is not smaller.
    out.resize(bytes.len().saturating_sub(1), 0);
    let status = deflater.compress(bytes, out, FlushCompress::Finish).map_err(io::Error::other)?;
    out.truncate(deflater.total_out() as usize);
    Ok(status == Status::StreamEnd)
}

#[cfg(test)]
mod tests;
