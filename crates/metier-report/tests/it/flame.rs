//! Flame graphs: parsing, drawing, and that no frame name becomes markup.

use crate::common::{subject, well_formed};
use base64::Engine as _;
use metier_report::RunReport;
use metier_report::flame::layout::lay_out_frames;
use metier_report::flame::{
    CollapsedStacks, FlameBaseline, SCRIPT, SCRIPT_DIGEST, StackError, embedded_svg, standalone_svg,
};
use sha2::Digest as _;

const BEFORE: &str = "app;main;read 30\napp;main;parse 50\napp;main;write;flush_[k] 20\n";
const AFTER: &str = "app;main;parse 75\napp;main;write;flush_[k] 20\napp;main 5\n";

fn stacks(text: &str) -> CollapsedStacks {
    CollapsedStacks::parse(text.as_bytes()).unwrap()
}

#[test]
fn the_order_of_lines_does_not_matter_and_the_text_reads_back() {
    let one = stacks(BEFORE);
    let other = stacks(
        "app;main;write;flush_[k] 12\r\n\n# comment\napp;main;parse 50\napp;main;write;flush_[k] 8\napp;main;read 30",
    );
    assert_eq!(standalone_svg(&one, "x", None), standalone_svg(&other, "x", None));
    assert_eq!(one.to_folded_text(), other.to_folded_text());
    assert_eq!(stacks(&one.to_folded_text()).to_folded_text(), one.to_folded_text());
    assert_eq!(one.total_samples(), 100);
}

#[test]
fn frames_are_as_wide_as_their_share_and_lie_within_their_parents() {
    let text: String = (0..500).map(|at| format!("a{};b{};c{at} {}\n", at % 7, at % 31, at + 1)).collect();
    let stacks = stacks(&text);
    let laid = lay_out_frames(&stacks, None);
    let whole = &laid.places[0];
    assert!((whole.from, whole.share) == (0.0, 1.0) && whole.total == 500 * 501 / 2);
    for depth in 1..=laid.deepest {
        let mut row: Vec<_> = laid.places.iter().filter(|place| place.depth == depth).collect();
        row.sort_by(|l, r| l.from.total_cmp(&r.from));
        assert!(
            row.windows(2).all(|pair| pair[0].from + pair[0].share <= pair[1].from + 1e-9),
            "row {depth} overlaps"
        );
        let parents: Vec<_> = laid.places.iter().filter(|place| place.depth == depth - 1).collect();
        for place in row {
            let inside = |parent: &&&_| {
                let parent: &metier_report::flame::layout::FrameBox<'_> = parent;
                parent.from <= place.from + 1e-9
                    && place.from + place.share <= parent.from + parent.share + 1e-9
            };
            assert!(parents.iter().any(|parent| inside(&parent)), "{place:?}");
        }
    }
}

#[test]
fn a_difference_is_of_shares_and_tells_what_is_gone() {
    let (before, after) = (stacks(BEFORE), stacks(AFTER));
    let laid = lay_out_frames(&after, Some(&before));
    let of = |name: &str| laid.places.iter().find(|place| place.name == name).unwrap().before.unwrap();
    assert!((of("parse") - 0.5).abs() < 1e-9 && (of("main") - 1.0).abs() < 1e-9);
    assert!((laid.vanished - 0.3).abs() < 1e-9);
    // Ten times as many samples with the same shares are no difference.
    let tenfold = stacks(&BEFORE.replace("0\n", "00\n"));
    let same = lay_out_frames(&tenfold, Some(&before));
    assert!(same.places.iter().all(|place| (place.share - place.before.unwrap()).abs() < 1e-9));
    let picture = standalone_svg(&after, "after", Some(FlameBaseline { stacks: &before, label: "before" }));
    assert!(picture.contains("after against before") && picture.contains("+25.00 points"), "{picture}");
    assert!(picture.contains("30.0 % of it are in stacks that are left out here"));
    assert!(picture.contains("hsl(8 ") && picture.contains("hsl(0 0% 90%)"));
    // With few samples the same shares are not significant.
    let few = |text: &str| {
        stacks(&text.replace("30", "3").replace("50", "5").replace("20", "2").replace("75", "8"))
    };
    let picture =
        standalone_svg(&few(AFTER), "after", Some(FlameBaseline { stacks: &few(BEFORE), label: "before" }));
    assert!(!picture.contains("hsl(8 "), "{picture}");
}

#[test]
fn what_is_no_stack_is_refused_with_its_line() {
    for (text, line) in [("main 5\nmain\n", 2), ("main x", 1), ("a;b 1.5", 1), ("a;b -1", 1), (" 7", 1)] {
        assert!(
            matches!(CollapsedStacks::parse(text.as_bytes()), Err(StackError::Line { line: got, .. }) if got == line),
            "{text:?}"
        );
    }
    for empty in ["", "\n\n", "# nothing", "a;b 0"] {
        assert_eq!(CollapsedStacks::parse(empty.as_bytes()), Err(StackError::Empty));
    }
}

#[test]
fn depth_and_number_of_frames_are_bounded_and_told() {
    let deep = format!("{} 9\nshallow 1\n", vec!["f"; 5000].join(";"));
    let stacks = stacks(&deep);
    assert_eq!(stacks.cut, 9);
    assert!(standalone_svg(&stacks, "deep", None).contains("9 samples deeper than 512 frames are cut"));
    let many: String = (0..100_000).map(|at| format!("main;f{at} 1\n")).collect();
    let stacks = CollapsedStacks::parse(many.as_bytes()).unwrap();
    let picture = standalone_svg(&stacks, "many", None);
    assert!(picture.contains("100000 narrow frames") && picture.len() < 100_000, "{}", picture.len());
}

#[test]
fn nothing_in_a_frame_becomes_markup() {
    let evil = stacks("<script>alert(1)</script>;\"onload=x;]]>&amp;<g> 5\n\u{1}\u{fffe};b 1\n");
    let alone = standalone_svg(&evil, "<b>", None);
    let (picture, script) = alone.split_once("<script><![CDATA[").unwrap();
    assert!(!picture.contains("<script") && !picture.contains("<g>") && script.matches("]]>").count() == 1);
    well_formed(&embedded_svg(&evil, "<b>", Some(FlameBaseline { stacks: &evil, label: "<i>" })));
    let mut subject = subject("x", 1, 1.0, 3.0);
    subject.runs[0].stacks = Some(evil);
    let report = RunReport::new(&[subject], "2026-11-17T09:00:00Z".parse().unwrap(), "metier 0").unwrap();
    let page = report.to_html().unwrap();
    well_formed(&page);
    assert_eq!(page.matches("<script>").count(), 1);
    assert!(page.contains(SCRIPT_DIGEST), "the policy allows the script");
}

#[test]
fn the_policy_allows_exactly_the_script_that_is_there() {
    let digest = sha2::Sha256::digest(SCRIPT.as_bytes());
    assert_eq!(SCRIPT_DIGEST, format!("sha256-{}", base64::engine::general_purpose::STANDARD.encode(digest)));
    assert!(!SCRIPT.contains("</script") && !SCRIPT.contains("]]>"));
}

proptest::proptest! {
    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
        if let Ok(stacks) = CollapsedStacks::parse(&bytes) {
            well_formed(&embedded_svg(&stacks, "x", None));
        }
    }

    #[test]
    fn any_frames_give_a_well_formed_picture(lines in proptest::collection::vec(("[ -~]{1,20}(;[ -~é]{0,20}){0,4}", 1u64..1000), 1..40)) {
        let text: String = lines.iter().map(|(path, count)| format!("x{path} {count}\n")).collect();
        let stacks = CollapsedStacks::parse(text.as_bytes()).unwrap();
        proptest::prop_assert_eq!(stacks.total_samples(), lines.iter().map(|line| line.1).sum::<u64>());
        well_formed(&embedded_svg(&stacks, "x", None));
    }
}
