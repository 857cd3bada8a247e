//! Line charts as inline SVG: axes, lines and marks, coloured by the page's styles.
//!
//! **Boundary**: draws what it is given; knows nothing of loads.

/// The drawing, and the room around the plot for the scales.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;

/// A chart.
pub(super) struct Chart {
    pub(super) title: &'static str,
    /// What the horizontal axis shows.
    pub(super) below: &'static str,
    pub(super) horizontal: Axis,
    pub(super) vertical: Axis,
    pub(super) lines: Vec<Line>,
    /// Stretches of the horizontal axis, each with what happened there.
    pub(super) marks: Vec<(f64, f64, String)>,
}

/// One line and its class in the page's styles.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) class: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

/// An axis.
pub(super) struct Axis {
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) is_logarithmic: bool,
    /// Where lines go across, each with its words.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0, in even steps.
    pub(super) fn even(most: f64, words: impl Fn(f64) -> String) -> Self {
        let rough = most.max(1e-9) / 5.0;
        let magnitude = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].iter().map(|times| times * magnitude);
        let step = step.into_iter().find(|step| *step >= rough).unwrap_or(rough);
        let n_steps = (most / step).ceil().max(1.0) as u32;
        let ticks = (0..=n_steps).map(|tick| f64::from(tick) * step);
        let ticks: Vec<(f64, String)> = ticks.map(|tick| (tick, words(tick))).collect();
        Axis { least: 0.0, most: f64::from(n_steps) * step, is_logarithmic: false, ticks }
    }

    /// From a power of ten to a power of ten, both above 0.
    pub(super) fn logarithmic(least: f64, most: f64, words: impl Fn(f64) -> String) -> Self {
        let (low, high) = (least.max(1e-3).log10().floor() as i32, most.log10().ceil() as i32);
        let high = high.max(low + 1);
        let ticks = (low..=high).map(|power| 10_f64.powi(power));
        let ticks = ticks.map(|tick| (tick, words(tick))).collect();
        let (least, most) = (10_f64.powi(low), 10_f64.powi(high));
        Axis { least, most, is_logarithmic: true, ticks }
    }

    /// Where a value lies, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let scale = |value: f64| match self.is_logarithmic {
            true => value.max(self.least).log10(),
            false => value,
        };
        let (least, most) = (scale(self.least), scale(self.most));
        ((scale(value) - least) / (most - least)).clamp(0.0, 1.0)
    }
}

impl Chart {
    /// The chart with its title and its legend.
    pub(super) fn figure(&self) -> String {
        let mut svg = String::new();
        self.grid(&mut svg);
        for (from, to, what) in &self.marks {
            let (left, height) = (self.x(*from), HEIGHT - TOP - BOTTOM);
            let width = (self.x(*to) - left).max(2.0);
            let place = format!(r#"x="{left:.1}" y="{TOP}" width="{width:.1}" height="{height}""#);
            svg.push_str(&format!(r#"<rect class="mark" {place}><title>{what}</title></rect>"#));
        }
        for line in &self.lines {
            svg.push_str(&self.line(line));
        }
        let key = |line: &Line| format!(r#"<span class="key {}">{}</span>"#, line.class, line.name);
        let keys: String = self.lines.iter().map(key).collect();
        let Chart { title, .. } = self;
        format!(
            "<figure><figcaption>{title}<span class=\"keys\">{keys}</span></figcaption>\
             <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">{svg}\
             </svg></figure>"
        )
    }

    fn grid(&self, svg: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (value, words) in &self.vertical.ticks {
            let y = self.y(*value);
            rule(svg, (LEFT, y), (right, y));
            text(svg, (LEFT - 8.0, y + 4.0), ("end", words));
        }
        for (value, words) in &self.horizontal.ticks {
            let x = self.x(*value);
            rule(svg, (x, TOP), (x, bottom));
            text(svg, (x, bottom + 16.0), ("middle", words));
        }
        text(svg, ((LEFT + right) / 2.0, HEIGHT - 6.0), ("middle", self.below));
    }

    /// A line, or a dot where it has one point only.
    fn line(&self, line: &Line) -> String {
        let Line { name, class, points } = line;
        if let [(x, y)] = points[..] {
            let place = format!(r#"cx="{:.1}" cy="{:.1}" r="3""#, self.x(x), self.y(y));
            return format!(
                r#"<circle class="dot {class}" {place}><title>{name}</title></circle>"#
            );
        }
        let place = |(x, y): &(f64, f64)| format!("{:.1},{:.1}", self.x(*x), self.y(*y));
        let places: Vec<String> = points.iter().map(place).collect();
        let points = places.join(" ");
        format!(
            "<polyline class=\"line {class}\" points=\"{points}\"><title>{name}</title></polyline>"
        )
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + self.horizontal.place(value) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.vertical.place(value) * (HEIGHT - TOP - BOTTOM)
    }
}

fn rule(svg: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let place = format!(r#"x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}""#);
    svg.push_str(&format!(r#"<line class="grid" {place}/>"#));
}

fn text(svg: &mut String, (x, y): (f64, f64), (anchor, words): (&str, &str)) {
    let place = format!(r#"x="{x:.1}" y="{y:.1}" text-anchor="{anchor}""#);
    svg.push_str(&format!(r#"<text class="tick" {place}>{words}</text>"#));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_axis_ends_on_a_step_above_the_most() {
        let words = |axis: &Axis| {
            axis.ticks.iter().map(|(_, words)| words.clone()).collect::<Vec<_>>().join(" ")
        };
        let axis = Axis::even(47_000.0, |tick| format!("{tick}"));
        assert_eq!(words(&axis), "0 10000 20000 30000 40000 50000");
        let flat = Axis::even(0.0, |tick| format!("{tick}"));
        assert!(flat.most > 0.0 && flat.ticks.len() == 2);
    }

    #[test]
    fn a_logarithmic_axis_spans_powers_of_ten() {
        let axis = Axis::logarithmic(300.0, 20_000.0, |tick| format!("{tick}"));
        assert_eq!((axis.least, axis.most, axis.ticks.len()), (100.0, 100_000.0, 4));
        assert!((axis.place(1_000.0) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!((axis.place(1.0), axis.place(1e9)), (0.0, 1.0));
    }

    #[test]
    fn a_chart_draws_lines_dots_and_marks() {
        let line = |name, points| Line { name, class: "a", points };
        let chart = Chart {
            title: "times",
            below: "seconds",
            horizontal: Axis::even(2.0, |tick| format!("{tick}")),
            vertical: Axis::even(10.0, |tick| format!("{tick}")),
            lines: vec![line("one", vec![(0.0, 0.0), (2.0, 10.0)]), line("two", vec![(1.0, 5.0)])],
            marks: vec![(0.5, 0.6, "killed".to_owned())],
        };
        let figure = chart.figure();
        for part in ["points=\"70.0,220.0 706.0,12.0\"", "<circle", "killed", ">seconds<"] {
            assert!(figure.contains(part), "{part} is missing in {figure}");
        }
    }
}
