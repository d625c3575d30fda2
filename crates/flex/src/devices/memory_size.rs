/// Bytes that a text such as `512MiB` or `8G` names; `None` for what is no size.
///
/// ```
/// use spyre_flex::parse_bytes;
/// assert_eq!((parse_bytes("512 MiB"), parse_bytes("8 apples")), (Some(512 << 20), None));
/// ```
pub fn parse_bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text);
    let number: u64 = number.parse().ok()?;
    let power = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return None,
    };
    number.checked_mul(1 << power)
}

/// The digits at the start of a text, and the unit behind them.
pub(super) fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    (number, unit.trim_start())
}
