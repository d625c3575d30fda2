//! The elements of an SVG document.

use super::super::panel::{COLOURS, Cell, length};

/// Width of one character of a label, and of a number in front of a line.
pub(super) const CHARACTER: f64 = 6.7;

/// The colours of tiles.
pub(super) const FILLS: [&str; COLOURS] =
    ["#a9cbe8", "#f6c49a", "#b4dcb0", "#eeb0bb", "#cbbfe3", "#efdd94", "#9dd5cf", "#d8bfa5"];

const STYLE: &str = "\
text{font-family:sans-serif;font-size:12px;fill:#555}\
.page{font-size:20px;font-weight:bold;fill:#222}\
.title{font-size:15px;font-weight:bold;fill:#222}\
.label{font-family:monospace;font-size:11px;fill:#222;text-anchor:middle}\
.gutter{font-family:monospace;font-size:11px;fill:#777;text-anchor:end}\
.over{font-family:monospace;font-size:11px;fill:#777}\
.fact{font-family:monospace;font-size:12px;fill:#222}\
.edge{fill:none;stroke:#333;stroke-opacity:.45}\
.hole{fill:none;stroke:#999;stroke-dasharray:2 2}";

const PADDING: &str = "<pattern id=\"padding\" width=\"6\" height=\"6\" \
patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
<rect width=\"6\" height=\"6\" fill=\"#f5f5f5\"/>\
<line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" stroke=\"#ccc\" stroke-width=\"2\"/></pattern>";

/// The elements so far.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    body: String,
}

/// A rectangle on the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Canvas {
    /// A stick, with its padding, or a piece of one.
    pub(super) fn cell(&mut self, cell: &Cell, area: Area) {
        if cell.is_hole() {
            return self.rect(area, "class=\"hole\"");
        }
        let fill = cell.tile.map_or("#fff", |_| FILLS[cell.colour % COLOURS]);
        let opacity = if cell.is_copy { " fill-opacity=\".5\"" } else { "" };
        self.rect(area, &format!("fill=\"{fill}\"{opacity}"));
        let scale = area.width / cell.elements as f64;
        for range in &cell.padding {
            // A sliver of colour stays, also where one element is all there is.
            let start = (range.start as f64 * scale).max(if range.start > 0 { 5.0 } else { 0.0 });
            let width = (range.end as f64 * scale - start).max(0.0);
            self.rect(Area { x: area.x + start, width, ..area }, "fill=\"url(#padding)\"");
        }
        self.rect(area, "class=\"edge\"");
        if length(&cell.label) as f64 * CHARACTER <= area.width {
            let x = area.x + area.width / 2.0;
            let y = area.y + area.height / 2.0 + 4.0;
            self.text("label", x, y, &cell.label);
        }
    }

    /// A rectangle; `paint` are its attributes.
    pub(super) fn rect(&mut self, area: Area, paint: &str) {
        let Area { x, y, width, height } = area;
        self.body += &format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" {paint}/>\n"
        );
    }

    /// A text that starts, ends or has its middle at `x`, by its class.
    pub(super) fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        if text.is_empty() {
            return;
        }
        let text = escaped(text);
        self.body += &format!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" xml:space=\"preserve\">{text}</text>\n"
        );
    }

    /// The whole document.
    pub(super) fn finish(self, width: f64, height: f64) -> String {
        let body = self.body;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width} {height:.0}\">\n<style>{STYLE}</style>\n<defs>{PADDING}</defs>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n"
        )
    }
}

/// Text in which nothing is markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let mut canvas = Canvas::default();
        canvas.text("label", 0.0, 0.0, "<a> & b");
        assert!(canvas.finish(10.0, 10.0).contains(">&lt;a&gt; &amp; b</text>"));
    }
}
