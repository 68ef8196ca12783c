//! Compatible interfaces that `metier up` binds to their own addresses.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use metier_power::estimate::PowerEstimator;
use metier_server::kepler::{self, KeplerServices};
use metier_server::{Config, HttpConfig};

use super::super::CommandContext;
use super::super::serve::{OnlinePaceArgs, PowerPredictorArgs};
use crate::config::SettingOrigin;
use crate::exit::usage_error;

/// Addresses of compatible interfaces, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct InterfaceAddresses {
    /// Further addresses of the main server.
    pub shared: Vec<(String, SocketAddr)>,
    pub models: Option<SocketAddr>,
    pub trainer: Option<SocketAddr>,
    pub estimator: Option<PathBuf>,
}

/// Power services.
pub struct PowerServices {
    pub estimator: Arc<PowerEstimator>,
    /// Interfaces for Kepler's clients and the update of pipelines; `None` where there is neither.
    pub services: Option<KeplerServices>,
}

const INTERFACE_SYNTAX: &str =
    "soprano, models or trainer=ADDRESS:PORT, or estimator=PATH, such as models=127.0.0.1:8100";

impl InterfaceAddresses {
    /// The named interfaces. Without them and without `--listen`, the default addresses of the
    /// original systems.
    pub fn from_settings(context: &CommandContext) -> anyhow::Result<Self> {
        let settings = &context.settings;
        let is_default =
            |name: &str| settings.get(name).is_none_or(|setting| setting.origin == SettingOrigin::Default);
        if is_default("up.doors") && is_default("up.listen") {
            let local = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            return Ok(Self {
                shared: vec![("soprano".to_string(), local(7002))],
                models: Some(local(kepler::MODELS_PORT)),
                trainer: Some(local(kepler::TRAINER_PORT)),
                estimator: Some(kepler::DEFAULT_SOCKET_PATH.into()),
            });
        }
        let mut named = Self::default();
        for text in settings.list("up.doors") {
            named.add_interface(&text).ok_or_else(|| settings.wrong_value("up.doors", INTERFACE_SYNTAX))?;
        }
        Ok(named)
    }

    fn add_interface(&mut self, text: &str) -> Option<()> {
        let (name, place) = text.split_once('=')?;
        match name {
            "soprano" => self.shared.push((name.to_string(), place.parse().ok()?)),
            "models" => self.models = Some(place.parse().ok()?),
            "trainer" => self.trainer = Some(place.parse().ok()?),
            "estimator" if !place.is_empty() => self.estimator = Some(place.into()),
            _ => return None,
        }
        Some(())
    }

    /// Builds the Kepler-compatible interfaces and their estimator; `None` where none is bound and
    /// the server needs no power.
    ///
    /// `stored` is the folder of the store's pipelines in use.
    pub fn build_power_services(
        &self,
        context: &CommandContext,
        config: &Config,
        is_asked: bool,
        stored: Option<PathBuf>,
    ) -> anyhow::Result<Option<PowerServices>> {
        let online = match (context.settings.path("up.online"), &config.soprano.prometheus) {
            (Some(folder), Some(prometheus)) => Some((folder, prometheus.clone())),
            (Some(_), None) => {
                return Err(context.settings.wrong_value("up.online", "a --prometheus URL with it"));
            }
            (None, _) => None,
        };
        let is_closed =
            self.models.is_none() && self.trainer.is_none() && self.estimator.is_none() && online.is_none();
        if is_closed && !is_asked {
            return Ok(None);
        }
        let predictors = PowerPredictorArgs::from_models(context.settings.list("up.models"));
        let settings = predictors.kepler_settings();
        let predictors = predictors.or_settings(&settings).with_stored(stored);
        // Shipped predictors never change and need no update.
        let has_services = !is_closed || !predictors.is_empty();
        let folder = online.as_ref().map(|(folder, _)| folder.as_path());
        let shelf = predictors.open_catalog(context, context.settings.path("up.uploads"), folder)?;
        let pace = OnlinePaceArgs::default().or_settings(&settings)?;
        let online = online.map(|(folder, prometheus)| pace.online_config(prometheus, folder, &predictors));
        // The user's start token serves loopback addresses only; a reachable address needs an
        // explicit token.
        let is_local = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
        let own = [self.models, self.trainer].iter().flatten().all(is_local);
        let http = HttpConfig {
            start_token: config.http.start_token.clone().filter(|_| own),
            ..config.http.clone()
        };
        let estimator = predictors.build_estimator(&shelf)?;
        let services = KeplerServices {
            socket: self.estimator.clone(),
            models: self.models,
            trainer: self.trainer,
            online: online.transpose()?,
            is_open: config.http.open.iter().any(|name| name == "models"),
            token: http.token.clone(),
            http,
            estimator: Some(estimator.clone()),
            error_key: predictors.error_key(),
            ..KeplerServices::new(shelf)
        };
        services.check().map_err(|error| usage_error(error.to_string()))?;
        Ok(Some(PowerServices { estimator, services: has_services.then_some(services) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_are_read_by_name() {
        let mut named = InterfaceAddresses::default();
        for text in ["soprano=127.0.0.1:1", "models=[::1]:2", "trainer=127.0.0.1:3", "estimator=/run/e.sock"]
        {
            named.add_interface(text).unwrap();
        }
        assert_eq!(named.shared, [("soprano".to_string(), "127.0.0.1:1".parse().unwrap())]);
        assert_eq!(named.models, Some("[::1]:2".parse().unwrap()));
        assert_eq!(named.trainer, Some("127.0.0.1:3".parse().unwrap()));
        assert_eq!(named.estimator, Some("/run/e.sock".into()));
        for wrong in ["models", "models=8100", "estimator=", "window=127.0.0.1:1", ""] {
            assert_eq!(InterfaceAddresses::default().add_interface(wrong), None, "{wrong}");
        }
    }
}
