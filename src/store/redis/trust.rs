//! Whose signatures on a server's certificate are believed, for each kind of connection.

use redis::{Client, ConnectionInfo, RedisResult};

/// The built-in web roots, or the certificates of a file in their place. Without TLS nobody's.
#[derive(Clone, Default)]
pub(super) struct Trust {
    #[cfg(feature = "redis-tls")]
    certificates: Option<redis::TlsCertificates>,
}

impl Trust {
    /// In these certificates alone.
    #[cfg(feature = "redis-tls")]
    pub(super) const fn only(certificates: redis::TlsCertificates) -> Self {
        Self { certificates: Some(certificates) }
    }

    /// The way to one server.
    ///
    /// # Errors
    /// The certificates cannot be read, or the address cannot be used.
    pub(super) fn client(&self, info: ConnectionInfo) -> RedisResult<Client> {
        #[cfg(feature = "redis-tls")]
        if let Some(certificates) = &self.certificates {
            return Client::build_with_tls(info, certificates.clone());
        }
        Client::open(info)
    }

    #[cfg(feature = "redis-sentinel")]
    pub(super) fn sentinel(
        &self,
        builder: redis::sentinel::SentinelClientBuilder,
    ) -> redis::sentinel::SentinelClientBuilder {
        #[cfg(feature = "redis-tls")]
        if let Some(certificates) = &self.certificates {
            return builder
                .set_client_to_redis_certificates(certificates.clone())
                .set_client_to_sentinel_certificates(certificates.clone());
        }
        builder
    }

    #[cfg(feature = "redis-cluster")]
    pub(super) fn cluster(
        &self,
        builder: redis::cluster::ClusterClientBuilder,
    ) -> redis::cluster::ClusterClientBuilder {
        #[cfg(feature = "redis-tls")]
        if let Some(certificates) = &self.certificates {
            return builder.certs(certificates.clone());
        }
        builder
    }
}
