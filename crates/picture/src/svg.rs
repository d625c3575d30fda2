//! The picture as an SVG document.

mod canvas;

use super::Picture;
use super::panel::{Panel, Row, Slot, length, tuple, wrap};
use canvas::{Area, CHARACTER, Canvas, FILLS};

const WIDTH: f64 = 1000.0;
const MARGIN: f64 = 32.0;
/// Cells in a line.
const CELLS: usize = 8;
const LINE: f64 = 25.0;
const GAP: f64 = 30.0;
/// Height of a whole stick that stands upright.
const UPRIGHT: f64 = 52.0;
/// Characters of captions in a line.
const CAPTION: usize = 115;
/// Characters of facts in a line.
const FACTS: usize = 120;

pub(super) fn draw(picture: &Picture) -> String {
    let panels = picture.panels(CELLS);
    let mut page = Page::new(picture, &panels);
    page.head(picture);
    for panel in &panels {
        page.panel(panel);
    }
    page.facts(picture);
    page.canvas.finish(WIDTH, page.y + MARGIN)
}

/// The document so far, and how far down it reaches.
struct Page {
    canvas: Canvas,
    y: f64,
    /// Left end of the lines of cells.
    left: f64,
    /// Width of a whole stick.
    cell: f64,
    /// Width of the smallest piece of one.
    narrowest: f64,
}

impl Page {
    fn new(picture: &Picture, panels: &[Panel]) -> Self {
        let labels = panels.iter().flat_map(|panel| &panel.rows).map(|row| match row {
            Row::Line { label, .. } => length(label),
            Row::Elided | Row::Space => 0,
        });
        let left = MARGIN + labels.max().unwrap_or(0).max(4) as f64 * CHARACTER + 10.0;
        let cell = ((WIDTH - MARGIN - left) / CELLS as f64 - 3.0).floor();
        // Where rows are cut unevenly, true widths say more than labels do.
        let label = if picture.sticks.is_regular() { picture.sticks.label_width() } else { 0 };
        let narrowest = label as f64 * CHARACTER + 5.0;
        Self { canvas: Canvas::default(), y: MARGIN, left, cell, narrowest }
    }

    fn head(&mut self, picture: &Picture) {
        let layout = picture.sticks.layout();
        let format = layout.device_dtype().name();
        self.y += 12.0;
        self.text("page", MARGIN, &format!("Tensor {}, {format}", tuple(layout.dma_sizes())));
        self.y += 24.0;
        self.text("", MARGIN, &picture.legend());
        self.key(picture.sticks.painted());
    }

    /// Draws the key to colours and hatching, at the right of the legend.
    fn key(&mut self, painted: &str) {
        let swatch = |x| Area { x, y: self.y - 11.0, width: 14.0, height: 14.0 };
        let tiles =
            [0, 1, 2, 3].map(|at| (FILLS[at], swatch(WIDTH - MARGIN - 290.0 + 17.0 * at as f64)));
        let padding = swatch(WIDTH - MARGIN - 72.0);
        for (fill, area) in tiles {
            self.canvas.rect(area, &format!("fill=\"{fill}\""));
        }
        self.canvas.rect(padding, "fill=\"url(#padding)\"");
        self.text("", WIDTH - MARGIN - 216.0, &format!("one {painted}, one colour"));
        self.text("", WIDTH - MARGIN - 52.0, "padding");
    }

    fn panel(&mut self, panel: &Panel) {
        self.y += 46.0;
        self.text("title", MARGIN, panel.title);
        for (at, text) in wrap(&panel.caption, CAPTION).iter().enumerate() {
            self.y += if at > 0 { 16.0 } else { 0.0 };
            self.text("", MARGIN + 144.0, text);
        }
        self.y += 12.0;
        if panel.is_vertical { self.upright(panel) } else { self.lying(panel) }
    }

    /// Rows below each other.
    fn lying(&mut self, panel: &Panel) {
        let unit = panel.unit();
        if let Some(row) = panel.rows.first() {
            self.y += 10.0;
            self.text("gutter", self.left - 8.0, panel.gutter);
            let mut x = self.left;
            for (text, slot) in panel.header.iter().zip(row.slots()) {
                self.text("over", x, text);
                x += self.width(slot, unit);
            }
            self.y += 5.0;
        }
        for row in &panel.rows {
            match row {
                Row::Line { label, slots } => self.line(label, slots, unit),
                Row::Elided => self.elided_line(),
                Row::Space => self.y += 8.0,
            }
        }
    }

    fn line(&mut self, label: &str, slots: &[Slot], unit: usize) {
        let middle = self.y + (LINE - 3.0) / 2.0 + 4.0;
        let height = LINE - 3.0;
        self.canvas.text("gutter", self.left - 8.0, middle, label);
        let mut x = self.left;
        for slot in slots {
            let width = self.width(slot, unit);
            match slot {
                Slot::Cell(cell) => {
                    self.canvas.cell(cell, Area { x, y: self.y, width: width - 2.0, height });
                }
                Slot::Elided => self.canvas.text("label", x + width / 2.0 - 1.0, middle, "…"),
                Slot::Break => {}
            }
            x += width;
        }
        self.y += LINE;
    }

    fn elided_line(&mut self) {
        self.y += 15.0;
        self.text("gutter", self.left - 8.0, "⋮");
        self.text("label", self.left + self.cell / 2.0, "⋮");
        self.y += 7.0;
    }

    /// Rows beside each other, each running down.
    fn upright(&mut self, panel: &Panel) {
        let unit = panel.unit();
        self.y += 14.0;
        let top = self.y;
        let mut x = self.left;
        let mut bottom = top;
        for row in &panel.rows {
            let Row::Line { label, slots } = row else {
                self.canvas.text("label", x + GAP / 2.0 - 1.0, top + UPRIGHT / 2.0, "…");
                x += GAP;
                continue;
            };
            self.canvas.text("over", x, top - 5.0, label);
            bottom = f64::max(bottom, self.column(x, slots, unit));
            x += self.cell;
        }
        self.column_labels(panel, unit);
        self.y = bottom;
    }

    /// Draws a column; returns where it ends.
    fn column(&mut self, x: f64, slots: &[Slot], unit: usize) -> f64 {
        let mut y = self.y;
        for slot in slots {
            let height = height(slot, unit);
            let width = self.cell - 2.0;
            match slot {
                Slot::Cell(cell) => {
                    self.canvas.cell(cell, Area { x, y, width, height: height - 2.0 });
                }
                _ => self.canvas.text("label", x + width / 2.0, y + height / 2.0 + 4.0, "⋮"),
            }
            y += height;
        }
        y
    }

    /// Labels each piece of the first column with its start.
    fn column_labels(&mut self, panel: &Panel, unit: usize) {
        let Some(row) = panel.rows.first() else { return };
        let mut y = self.y;
        for (text, slot) in panel.header.iter().zip(row.slots()) {
            self.canvas.text("gutter", self.left - 8.0, y + 12.0, text);
            y += height(slot, unit);
        }
    }

    fn facts(&mut self, picture: &Picture) {
        self.y += 30.0;
        let rule = Area { x: MARGIN, y: self.y, width: WIDTH - 2.0 * MARGIN, height: 1.0 };
        self.canvas.rect(rule, "fill=\"#ddd\"");
        self.y += 10.0;
        for (heading, text) in picture.facts.lines(FACTS) {
            self.y += 18.0;
            self.text("", MARGIN, heading);
            self.text("fact", MARGIN + 70.0, &text);
        }
        for line in picture.facts.boxes(FACTS) {
            self.y += 18.0;
            self.text("fact", MARGIN + 70.0, &line);
        }
    }

    fn text(&mut self, class: &str, x: f64, text: &str) {
        self.canvas.text(class, x, self.y, text);
    }

    fn width(&self, slot: &Slot, unit: usize) -> f64 {
        match slot {
            Slot::Cell(cell) => {
                let scaled = self.cell * cell.elements.min(unit) as f64 / unit as f64;
                let least = if cell.is_hole() { 6.0 } else { self.narrowest.min(self.cell) };
                scaled.max(least)
            }
            Slot::Elided => GAP,
            Slot::Break => 6.0,
        }
    }
}

/// Height of something that stands upright.
fn height(slot: &Slot, unit: usize) -> f64 {
    match slot {
        Slot::Cell(cell) => (UPRIGHT * cell.elements as f64 / unit as f64).max(20.0),
        Slot::Elided | Slot::Break => 22.0,
    }
}
