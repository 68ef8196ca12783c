//! Any bytes as a power predictor, with every regressor of metier-learn. The file is refused, or
//! every row gives a plausible power, and a rewritten file gives the same predictions.

use metier_power::trainers::PowerPredictorFile;

use super::{FuzzTarget, pipeline};

pub const TARGET: FuzzTarget = FuzzTarget { name: "predictor", seeds, run };

const HELD_OUT: &str = r#"{"component":"package","validation":"rows","rows":1,"mae":0.5,"mape":null,"rows_above_floor":0,"coverage":null,"width":null}"#;
const TREES: &str = r#"[[{"feature":0,"value":0.5,"children":1,"parent":0,"gain":1,"weight":1,"rows":2},{"feature":0,"value":1,"children":0,"parent":0,"gain":0,"weight":1,"rows":1},{"feature":0,"value":2,"children":0,"parent":0,"gain":0,"weight":1,"rows":1}]]"#;
const MATRIX: &str = r#"{"width":1,"values":[0.1,0.9]}"#;

fn seeds() -> Vec<Vec<u8>> {
    let exact = format!(r#"{{"width":1,"start":1.0,"single":true,"trees":{TREES}}}"#);
    let near = format!(r#"{{"rows":{MATRIX},"targets":[1.0,2.0],"count":2}}"#);
    let svr = format!(r#"{{"vectors":{MATRIX},"weights":[1.0,2.0],"bias":0.5,"gamma":1.0}}"#);
    let kinds = [
        ("linear", r#"{"bias":1.0,"weights":[2.0]}"#),
        ("polynomial", r#"{"bias":1.0,"weights":[2.0,1.0,0.5]}"#),
        ("curve", r#"{"form":"logistic","main":0,"weights":[1.0,2.0,3.0,4.0]}"#),
        ("neighbours", &near),
        ("svr", &svr),
        ("trees", &exact),
    ];
    let file = |(kind, of): (&str, &str)| {
        format!(
            r#"{{"schema":"metier.power-predictor/1","trainer":"XgboostFitTrainer","features":["a"],"scale":[2.0],"components":{{"package":{{"learned":{{"kind":"{kind}","of":{of}}},"reach":0.5,"held_out":{HELD_OUT}}}}}}}"#
        )
        .into_bytes()
    };
    let mut seeds: Vec<Vec<u8>> = kinds.map(file).to_vec();
    for seed in &seeds {
        let read = PowerPredictorFile::read(seed);
        assert!(read.is_ok(), "a seed is a predictor: {} {:?}", String::from_utf8_lossy(seed), read.err());
    }
    // Blends of several regressors.
    let trained = pipeline::MEMBERS.iter().map(|(_, content)| content.clone());
    seeds.extend(trained.filter(|content| PowerPredictorFile::read(content).is_ok()));
    seeds
}

fn run(bytes: &[u8]) {
    let Ok(predictor) = PowerPredictorFile::read(bytes) else { return };
    let again = PowerPredictorFile::read(&predictor.bytes()).expect("what is written can be read");
    for value in [0.0, 0.5, -1.0, 1e300] {
        let row = vec![value; predictor.features.len()];
        let Ok(predicted) = predictor.predict(&row) else { continue };
        assert_eq!(Some(&predicted), again.predict(&row).ok().as_ref());
        for (component, watts) in predicted {
            assert!(watts.value.is_finite() && watts.value >= 0.0, "{component:?}: {watts:?}");
            assert!(watts.low >= 0.0 && watts.low <= watts.value && watts.value <= watts.high, "{watts:?}");
        }
    }
}
