//! The picture as text.

use super::Picture;
use super::panel::{COLOURS, Cell, Panel, Row, Slot, shortened, wrap};

const COLUMNS: usize = 80;
/// Characters in front of captions and facts.
const HEADING: usize = 15;
/// Lines of a whole stick that stands upright.
const UPRIGHT: usize = 2;
/// Light backgrounds of the 256-colour palette, for black text.
const BACKGROUNDS: [u8; COLOURS] = [153, 216, 151, 218, 183, 222, 116, 180];

pub(super) fn draw(picture: &Picture, colour: bool) -> String {
    let narrowest = picture.sticks.label_width();
    let inner = (narrowest + 1).max(7);
    let gutter = gutter(picture);
    let cells = (COLUMNS.saturating_sub(gutter + 2) / (inner + 1)).clamp(2, 8);
    let mut page = Page { lines: legend(picture, colour), inner, narrowest, gutter, colour };
    for panel in picture.panels(cells) {
        page.panel(&panel);
    }
    page.lines.push(String::new());
    for (heading, text) in picture.facts.lines(COLUMNS - HEADING) {
        page.heading(heading, &text);
    }
    let boxes = picture.facts.boxes(COLUMNS - 2);
    page.lines.extend(boxes.iter().map(|line| format!("  {line}")));
    page.lines.iter().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// Explanation of the picture, then of its shades.
fn legend(picture: &Picture, colour: bool) -> Vec<String> {
    let mut lines = wrap(&picture.legend(), COLUMNS);
    let colours = colour.then(|| format!("One {}, one colour.", picture.sticks.painted()));
    let padding = (picture.sticks.padding() > 0).then(|| "░ is padding.".to_string());
    let shades: Vec<String> = colours.into_iter().chain(padding).collect();
    lines.extend((!shades.is_empty()).then(|| shades.join(" ")));
    lines
}

/// Characters of the widest label of a line.
fn gutter(picture: &Picture) -> usize {
    let sticks = &picture.sticks;
    let last = sticks.host().last().unwrap_or(0) * picture.host_element_bytes;
    let bytes = last.max(sticks.layout().device_bytes());
    bytes.to_string().len().max(sticks.index_width().clamp(4, 16))
}

/// The lines so far, and the measures of cells.
struct Page {
    lines: Vec<String>,
    /// Characters in a cell.
    inner: usize,
    /// Characters in the smallest piece of one.
    narrowest: usize,
    /// Characters in front of a line of cells.
    gutter: usize,
    colour: bool,
}

impl Page {
    fn panel(&mut self, panel: &Panel) {
        self.lines.push(String::new());
        for (at, text) in wrap(&panel.caption, COLUMNS - HEADING).iter().enumerate() {
            self.heading(if at == 0 { panel.title } else { "" }, text);
        }
        if panel.is_vertical { self.upright(panel) } else { self.lying(panel) }
    }

    fn heading(&mut self, heading: &str, text: &str) {
        let heading = self.styled(&format!("{heading:HEADING$}"), "1");
        self.lines.push(format!("{heading}{text}"));
    }

    /// Rows below each other.
    fn lying(&mut self, panel: &Panel) {
        let unit = panel.unit();
        if let Some(row) = panel.rows.first() {
            self.header(panel, row.slots(), unit);
        }
        for row in &panel.rows {
            let line = match row {
                Row::Line { label, slots } => self.line(label, slots, unit),
                Row::Elided => self.labelled("⋮", ""),
                Row::Space => String::new(),
            };
            self.lines.push(line);
        }
    }

    /// Texts over the cells of a line.
    fn header(&mut self, panel: &Panel, slots: &[Slot], unit: usize) {
        let text = |(text, slot): (&String, &Slot)| match slot {
            Slot::Cell(cell) => format!("{text:0$} ", self.width(cell, unit)),
            Slot::Elided | Slot::Break => " ".repeat(4),
        };
        let line: String = panel.header.iter().zip(slots).map(text).collect();
        if !panel.gutter.is_empty() || !line.is_empty() {
            self.lines.push(self.labelled(panel.gutter, &format!(" {line}")));
        }
    }

    fn line(&self, label: &str, slots: &[Slot], unit: usize) -> String {
        let mut line = String::from("│");
        for slot in slots {
            match slot {
                Slot::Cell(cell) => line += &self.cell(cell, &cell.label, self.width(cell, unit)),
                Slot::Elided => line += " … ",
                Slot::Break => {
                    line.pop();
                    line.push('║');
                    continue;
                }
            }
            line.push('│');
        }
        self.labelled(label, &line)
    }

    /// Rows beside each other, each running down.
    fn upright(&mut self, panel: &Panel) {
        let above = panel.rows.iter().map(|row| match row {
            Row::Line { label, .. } => format!("{:1$} ", shortened(label, self.inner), self.inner),
            Row::Elided | Row::Space => " ".repeat(4),
        });
        let above: String = above.collect();
        self.lines.push(self.labelled("", &format!(" {above}")));
        let slots = panel.rows.iter().map(|row| row.slots().len()).max().unwrap_or(0);
        for at in 0..slots {
            self.storey(panel, at);
        }
    }

    /// Draws the slots at one height, below a rule unless they are the first.
    fn storey(&mut self, panel: &Panel, at: usize) {
        let unit = panel.unit();
        let slots = || panel.rows.iter().map(|row| row.slots().get(at));
        let height = slots().flatten().map(|slot| height(slot, unit)).max().unwrap_or(1);
        if at > 0 {
            let rule =
                |slot: Option<&Slot>| "─".repeat(if slot.is_some() { self.inner } else { 3 });
            let rules: Vec<String> = slots().map(rule).collect();
            self.lines.push(self.labelled("", &format!("├{}┤", rules.join("┼"))));
        }
        for line in 0..height {
            let label = panel.header.get(at).filter(|_| line == 0).map_or("", String::as_str);
            let mut text = String::from("│");
            for slot in slots() {
                text += &match slot {
                    Some(Slot::Cell(cell)) => {
                        self.cell(cell, if line == 0 { &cell.label } else { "" }, self.inner)
                    }
                    Some(Slot::Elided | Slot::Break) => format!("{:^1$}", "⋮", self.inner),
                    None => (if line == 0 { " … " } else { "   " }).into(),
                };
                text.push('│');
            }
            self.lines.push(self.labelled(label, &text));
        }
    }

    fn labelled(&self, label: &str, line: &str) -> String {
        format!("{:>1$} {line}", shortened(label, self.gutter), self.gutter)
    }

    fn width(&self, cell: &Cell, unit: usize) -> usize {
        let scaled = (self.inner * cell.elements.min(unit) * 2 + unit) / (2 * unit);
        if cell.is_hole() { scaled.max(1) } else { scaled.max(self.narrowest) }
    }

    /// Its label and what follows it: nothing, or padding.
    fn cell(&self, cell: &Cell, label: &str, width: usize) -> String {
        if cell.is_hole() {
            return self.styled(&"·".repeat(width), "38;5;245");
        }
        let is_padding = |at: usize| {
            let middle = (2 * at + 1) * cell.elements / (2 * width);
            cell.padding.iter().any(|range| range.contains(&middle))
        };
        let fill = |at: usize| if is_padding(at) { '░' } else { ' ' };
        let text: String = label.chars().chain((label.len()..width).map(fill)).collect();
        let style = match cell.tile {
            Some(_) => format!("38;5;16;48;5;{}", BACKGROUNDS[cell.colour % COLOURS]),
            None => "38;5;245".into(),
        };
        self.styled(&text, &style)
    }

    fn styled(&self, text: &str, style: &str) -> String {
        if self.colour { format!("\x1b[{style}m{text}\x1b[0m") } else { text.into() }
    }
}

/// Lines of something that stands upright.
fn height(slot: &Slot, unit: usize) -> usize {
    match slot {
        Slot::Cell(cell) if cell.elements * 2 > unit => UPRIGHT,
        Slot::Cell(_) | Slot::Elided | Slot::Break => 1,
    }
}
