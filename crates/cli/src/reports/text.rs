//! Texts of numbers and shapes, for people.

use std::fmt::Write;
use std::time::Duration;

use spyre::hal::MemoryMode;
use spyre::numerics::Profile;

/// `256x64`; a tensor without dimensions is a `scalar`.
pub(crate) fn shape(sizes: &[usize]) -> String {
    match sizes {
        [] => "scalar".to_owned(),
        _ => sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join("x"),
    }
}

/// Whole units where they are, else two decimals.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        None => format!("{bytes} B"),
        Some((name, unit)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((name, unit)) => format!("{:.2} {name}", bytes as f64 / unit as f64),
    }
}

pub(crate) fn duration(time: Duration) -> String {
    match time.as_nanos() {
        0..10_000 => format!("{} ns", time.as_nanos()),
        10_000..10_000_000 => format!("{:.1} us", time.as_secs_f64() * 1e6),
        _ => format!("{:.2} ms", time.as_secs_f64() * 1e3),
    }
}

/// Age in the largest unit that it fills.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

pub(crate) fn mode(mode: MemoryMode) -> &'static str {
    match mode {
        MemoryMode::Pf => "PF",
        MemoryMode::Vf => "VF",
    }
}

pub(crate) fn profile(profile: Profile) -> &'static str {
    match profile {
        Profile::Open => "open",
        Profile::Card => "card",
    }
}

/// `1 step`, `2 steps`.
pub(crate) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Sixteen bytes a line, with their offset and what of them is text.
pub(crate) fn hex_dump(bytes: &[u8]) -> String {
    let mut dump = String::new();
    for (line, bytes) in bytes.chunks(16).enumerate() {
        let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let is_shown = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        let shown = |&byte: &u8| if is_shown(byte) { byte.into() } else { '.' };
        let text: String = bytes.iter().map(shown).collect();
        let _ = writeln!(dump, "{:08x}  {:<47}  {text}", 16 * line, digits.join(" "));
    }
    dump
}

/// Rows as columns that line up.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let most = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |at: usize| rows.iter().filter_map(move |row| row.get(at)).map(|c| c.chars().count());
    let widths: Vec<usize> = (0..most).map(|at| width(at).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from(" ");
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, " {cell:<width$} ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_units_where_they_are() {
        assert_eq!(bytes(96 << 30), "96 GiB");
        assert_eq!((bytes(1536), bytes(0)), ("1.50 KiB".to_owned(), "0 B".to_owned()));
        assert_eq!((shape(&[256, 64]), shape(&[])), ("256x64".to_owned(), "scalar".to_owned()));
    }

    #[test]
    fn ages_are_in_units_that_they_fill() {
        assert_eq!([age(0), age(119), age(7199)], ["0 s", "119 s", "119 min"]);
        assert_eq!([age(7200), age(172_800)], ["2 h", "2 days"]);
    }

    #[test]
    fn a_dump_shows_bytes_and_text() {
        let dump = hex_dump(b"SPYRCODE\x01\0\0\0\0\0\0\0!");
        let expected = "00000000  53 50 59 52 43 4f 44 45 01 00 00 00 00 00 00 00  SPYRCODE........\n\
                        00000010  21                                               !\n";
        assert_eq!(dump, expected);
    }
}
