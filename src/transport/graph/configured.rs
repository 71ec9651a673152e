//! From the table `[transport.graph]` to what a transport is made of.

use super::options::{Credentials, GraphOptions};
use crate::config::{ConfigError, GraphConfig};

impl From<&GraphConfig> for GraphOptions {
    fn from(config: &GraphConfig) -> Self {
        Self {
            mode: config.mode,
            base_url: config.base_url.clone(),
            connect_timeout: config.connect_timeout,
            idle_timeout: config.idle_timeout,
            batch_max: config.batch_max,
            batch_bytes_max: usize::try_from(config.batch_bytes_max).unwrap_or(usize::MAX),
            ..Self::default()
        }
    }
}

impl TryFrom<&GraphConfig> for Credentials {
    type Error = ConfigError;

    /// Reads the secret from where the configuration says that it is kept.
    fn try_from(config: &GraphConfig) -> Result<Self, ConfigError> {
        let secret = config.secret()?;
        Ok(Self::new(&*config.tenant, &*config.client_id, secret.expose())
            .authority(&*config.authority)
            .scope(&*config.scope))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    #[test]
    fn the_defaults_of_the_file_are_the_defaults_of_the_transport() {
        let made = GraphOptions::from(&GraphConfig::default());
        assert_eq!(format!("{made:?}"), format!("{:?}", GraphOptions::default()));
    }

    #[test]
    fn credentials_need_a_secret_and_take_every_key() {
        let mut config = GraphConfig::default();
        (config.tenant, config.client_id) = ("contoso".to_owned(), "0f3b".to_owned());
        assert!(matches!(Credentials::try_from(&config), Err(ConfigError::SecretMissing { .. })));
        config.client_secret = Secret::new("hunter2");
        let made = Credentials::try_from(&config).expect("all of it is there");
        let shown = format!("{made:?}");
        assert!(shown.contains("contoso") && shown.contains("0f3b") && !shown.contains("hunter2"), "{shown}");
        assert_eq!(made.scope, Credentials::new("", "", "").scope);
    }
}
