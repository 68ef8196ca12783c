//! The image: present or fetched, the digest of its content, and the command line of its
//! containers.

use bollard::models::ImageInspect;
use bollard::query_parameters::CreateImageOptions;
use futures_util::StreamExt;
use metier_types::ContentDigest;

use super::engine::{ContainerEngine, error_text, is_not_found};
use crate::spec::{ContainerSpec, PullPolicy};

/// Facts about an image that are needed to run it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ContainerImage {
    pub digest: Option<ContentDigest>,
    pub command: Vec<String>,
    pub working_directory: Option<String>,
}

/// Fetches the image if needed, and determines its command line.
pub(crate) async fn resolve_image(
    engine: &ContainerEngine,
    spec: &ContainerSpec,
) -> Result<ContainerImage, String> {
    let name = &spec.image;
    if spec.pull == PullPolicy::Always {
        pull_image(engine, name)
            .await
            .map_err(|reason| format!("the image {name} could not be fetched: {reason}"))?;
    }
    let found = match engine.docker.inspect_image(name).await {
        Err(error) if is_not_found(&error) && spec.pull == PullPolicy::Missing => {
            pull_image(engine, name).await.map_err(|reason| {
                format!("there is no image {name} here, and it could not be fetched: {reason}")
            })?;
            engine.docker.inspect_image(name).await
        }
        other => other,
    };
    let found = found.map_err(|error| match is_not_found(&error) {
        true => format!("there is no image {name} here; `docker pull` it, or correct its name"),
        false => format!("the image {name} cannot be inspected: {}", error_text(&error)),
    })?;
    let command = container_command(spec, &found)?;
    let config = found.config.unwrap_or_default();
    // The registry's digest, else the engine's: both are digests of the content.
    let registry = found.repo_digests.iter().flatten().filter_map(|digest| digest.split_once('@')).next();
    let digest = registry.and_then(|(_, digest)| digest.parse().ok());
    let digest = digest.or_else(|| found.id.as_deref().and_then(|id| id.parse().ok()));
    Ok(ContainerImage {
        digest,
        command,
        working_directory: config.working_dir.filter(|folder| !folder.is_empty()),
    })
}

async fn pull_image(engine: &ContainerEngine, name: &str) -> Result<(), String> {
    // Without a tag the engine would fetch all tags.
    let last = name.rsplit('/').next().unwrap_or(name);
    let tag = (!last.contains(':') && !name.contains('@')).then(|| "latest".to_string());
    let options = CreateImageOptions { from_image: Some(name.to_string()), tag, ..Default::default() };
    let mut steps = engine.without_timeout().create_image(Some(options), None, None).boxed();
    while let Some(step) = steps.next().await {
        match step {
            Ok(step) => {
                if let Some(error) = step.error_detail.and_then(|detail| detail.message) {
                    return Err(error);
                }
            }
            Err(error) => return Err(error_text(&error)),
        }
    }
    Ok(())
}

/// Entrypoint and command as the engine would combine them.
fn container_command(spec: &ContainerSpec, image: &ImageInspect) -> Result<Vec<String>, String> {
    let config = image.config.clone().unwrap_or_default();
    let own = config.entrypoint.unwrap_or_default();
    let entrypoint = spec.entrypoint.clone().unwrap_or(own);
    let arguments = match (&spec.entrypoint, spec.arguments.is_empty()) {
        (_, false) => spec.arguments.clone(),
        // The image's command belongs to the image's entrypoint.
        (Some(_), true) => Vec::new(),
        (None, true) => config.cmd.unwrap_or_default(),
    };
    let words = [entrypoint, arguments].concat();
    match words.first().is_none_or(String::is_empty) {
        true => Err(format!(
            "the image {} has neither an entrypoint nor a command; give a program after the image's name",
            spec.image
        )),
        false => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use bollard::models::ImageConfig;

    use super::*;

    fn image(entrypoint: &[&str], cmd: &[&str]) -> ImageInspect {
        let list = |words: &[&str]| Some(words.iter().map(|word| (*word).to_string()).collect());
        let config = ImageConfig { entrypoint: list(entrypoint), cmd: list(cmd), ..Default::default() };
        ImageInspect { config: Some(config), ..Default::default() }
    }

    #[test]
    fn entrypoint_and_command_are_put_together_as_the_engine_does() {
        let list = |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_string()).collect() };
        let both = image(&["/entry"], &["a"]);
        let mut spec = ContainerSpec { image: "x".into(), ..ContainerSpec::default() };
        assert_eq!(container_command(&spec, &both).unwrap(), ["/entry", "a"]);
        spec.arguments = list(&["b", "c"]);
        assert_eq!(container_command(&spec, &both).unwrap(), ["/entry", "b", "c"]);
        spec.entrypoint = Some(list(&["sh"]));
        assert_eq!(container_command(&spec, &both).unwrap(), ["sh", "b", "c"]);
        spec.arguments.clear();
        assert_eq!(container_command(&spec, &both).unwrap(), ["sh"]);
        spec.entrypoint = None;
        assert!(
            container_command(&spec, &image(&[], &[]))
                .unwrap_err()
                .contains("neither an entrypoint nor a command")
        );
    }
}
