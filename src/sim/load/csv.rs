//! The course of a load as comma-separated values.
//!
//! **Invariant**: the names in the first line are those of the JSON's `series`; what is not known
//! is an empty field.

use super::report::Second;

const NAMES: &str = "second,sent,queued,accepted,handled,errors,send_accepted_p50_us,\
                     send_accepted_p99_us,send_accepted_max_us";

pub(super) fn csv(series: &[Second]) -> String {
    let mut text = format!("{NAMES}\n");
    for second in series {
        let Second { second: at, sent, queued, accepted, handled, errors, .. } = second;
        let times =
            [second.send_accepted_p50_us, second.send_accepted_p99_us, second.send_accepted_max_us];
        let times = times.map(|time| time.map_or(String::new(), |time| time.to_string()));
        let times = times.join(",");
        text.push_str(&format!("{at},{sent},{queued},{accepted},{handled},{errors},{times}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::report::example;
    use super::*;

    #[test]
    fn a_second_is_a_line_and_the_unknown_is_empty() {
        let text = csv(&example().series);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], NAMES);
        assert_eq!(lines[1..], ["0,600,600,599,0,0,,,", "1,400,600,599,900,3,5000,9900,10000"]);
    }

    #[test]
    fn the_names_are_those_of_the_json() {
        let json = serde_json::to_value(example().series[1]).unwrap();
        let mut names: Vec<&str> = NAMES.split(',').collect();
        names.sort_unstable();
        let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
        assert_eq!(names, keys);
    }
}
