//! Doors of other systems that `metier up` opens at places of their own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use metier_power::estimate::Estimator;
use metier_server::kepler::{self, Doors};
use metier_server::{Config, Secret};

use super::super::Room;
use super::super::serve::{Pace, Predictors};
use crate::config::Origin;
use crate::exit::usage;

/// Where doors are, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Further addresses of the main server.
    pub shared: Vec<(String, SocketAddr)>,
    pub models: Option<SocketAddr>,
    pub trainer: Option<SocketAddr>,
    pub estimator: Option<PathBuf>,
}

/// What answers about power.
pub struct Answering {
    pub estimator: Arc<Estimator>,
    /// The doors that Kepler's clients come through, and who keeps the pipelines up to date; `None` where there is neither.
    pub doors: Option<Doors>,
}

const WANT: &str =
    "soprano, models or trainer=ADDRESS:PORT, or estimator=PATH, such as models=127.0.0.1:8100";

impl Named {
    /// Those that were named; else, where nobody chose an address for the whole, the originals' own places.
    pub fn read(room: &Room) -> anyhow::Result<Self> {
        let settings = &room.settings;
        let is_default =
            |name: &str| settings.get(name).is_none_or(|setting| setting.origin == Origin::Default);
        if is_default("up.doors") && is_default("up.listen") {
            let local = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            return Ok(Self {
                shared: vec![("soprano".to_string(), local(7002))],
                models: Some(local(kepler::MODELS_PORT)),
                trainer: Some(local(kepler::TRAINER_PORT)),
                estimator: Some(kepler::SOCKET.into()),
            });
        }
        let mut named = Self::default();
        for text in settings.list("up.doors") {
            named.add(&text).ok_or_else(|| settings.wrong("up.doors", WANT))?;
        }
        Ok(named)
    }

    fn add(&mut self, text: &str) -> Option<()> {
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

    /// The doors of Kepler's power stack and who answers behind them; `None` where none is named and nobody else asks.
    ///
    /// `stored` is the folder of the pipelines of the store that are in use.
    pub fn power(
        &self,
        room: &Room,
        config: &Config,
        is_asked: bool,
        stored: Option<PathBuf>,
    ) -> anyhow::Result<Option<Answering>> {
        let online = match (room.settings.path("up.online"), &config.soprano.prometheus) {
            (Some(folder), Some(prometheus)) => Some((folder, prometheus.clone())),
            (Some(_), None) => return Err(room.settings.wrong("up.online", "a --prometheus URL beside it")),
            (None, _) => None,
        };
        let is_closed =
            self.models.is_none() && self.trainer.is_none() && self.estimator.is_none() && online.is_none();
        if is_closed && !is_asked {
            return Ok(None);
        }
        let predictors = Predictors::of(room.settings.list("up.models"));
        let settings = predictors.settings();
        let predictors = predictors.or_of(&settings).and_stored(stored);
        // What is shipped never changes: nobody has to look after it.
        let has_doors = !is_closed || !predictors.is_empty();
        let folder = online.as_ref().map(|(folder, _)| folder.as_path());
        let shelf = predictors.shelf(room, room.settings.path("up.uploads"), folder)?;
        let pace = Pace::default().or_of(&settings)?;
        let online = online.map(|(folder, prometheus)| pace.online(prometheus, folder, &predictors));
        // What this user keeps in a file is for this machine; who is reached from others is given a token on purpose.
        let is_local = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
        let own = [self.models, self.trainer].iter().flatten().all(is_local);
        let token: Option<Secret> =
            config.http.token.clone().or_else(|| config.http.start_token.clone().filter(|_| own));
        let estimator = predictors.estimator(&shelf)?;
        let doors = Doors {
            socket: self.estimator.clone(),
            models: self.models,
            trainer: self.trainer,
            online: online.transpose()?,
            is_open: config.http.open.iter().any(|door| door == "models"),
            token,
            estimator: Some(estimator.clone()),
            error_key: predictors.error_key(),
            ..Doors::new(shelf)
        };
        doors.check().map_err(|error| usage(error.to_string()))?;
        Ok(Some(Answering { estimator, doors: has_doors.then_some(doors) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_are_read_by_name() {
        let mut named = Named::default();
        for text in ["soprano=127.0.0.1:1", "models=[::1]:2", "trainer=127.0.0.1:3", "estimator=/run/e.sock"]
        {
            named.add(text).unwrap();
        }
        assert_eq!(named.shared, [("soprano".to_string(), "127.0.0.1:1".parse().unwrap())]);
        assert_eq!(named.models, Some("[::1]:2".parse().unwrap()));
        assert_eq!(named.trainer, Some("127.0.0.1:3".parse().unwrap()));
        assert_eq!(named.estimator, Some("/run/e.sock".into()));
        for wrong in ["models", "models=8100", "estimator=", "window=127.0.0.1:1", ""] {
            assert_eq!(Named::default().add(wrong), None, "{wrong}");
        }
    }
}
