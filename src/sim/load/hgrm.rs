//! How times are spread, in the text form that plotters of HdrHistogram read.

use hdrhistogram::Histogram;

/// Steps between two halvings of what is left above a share.
const STEPS: u32 = 5;

/// In milliseconds, from a histogram of microseconds.
pub(super) fn hgrm(histogram: &Histogram<u64>) -> String {
    let mut text = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut count = 0;
    for step in histogram.iter_quantiles(STEPS) {
        count += step.count_since_last_iteration();
        let (value, share) = (step.value_iterated_to() as f64 / 1e3, step.quantile_iterated_to());
        text.push_str(&format!("{value:>12.3} {share:>14.12} {count:>10}"));
        if share < 1.0 {
            text.push_str(&format!(" {:>14.2}", 1.0 / (1.0 - share)));
        }
        text.push('\n');
    }
    let (mean, deviation) = (histogram.mean() / 1e3, histogram.stdev() / 1e3);
    let (max, total) = (histogram.max() as f64 / 1e3, histogram.len());
    text.push_str(&format!("#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]\n"));
    text.push_str(&format!("#[Max     = {max:>12.3}, Total count    = {total:>12}]\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::super::report::example;

    #[test]
    fn lines_rise_to_the_whole() {
        let text = example().hgrm();
        let lines: Vec<&str> = text.lines().skip(2).take_while(|l| !l.starts_with('#')).collect();
        let shares: Vec<f64> = lines
            .iter()
            .map(|line| line.split_whitespace().nth(1).unwrap().parse().unwrap())
            .collect();
        assert!(shares.windows(2).all(|pair| pair[0] <= pair[1]), "{text}");
        assert_eq!(shares.last(), Some(&1.0), "{text}");
        assert!(lines.last().unwrap().trim_start().starts_with("10."), "{text}");
        assert!(text.contains("Total count    =         1000"), "{text}");
    }
}
