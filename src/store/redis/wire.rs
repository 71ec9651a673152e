//! What the connection is made of: how it is opened, and how commands go over it.

use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisError, RedisResult, ServerError, Value};
use tokio::time::timeout;

use super::address::Address;
use super::options::RedisOptions;

/// Beyond the client library's own timeout, for a reply that it does not bound.
pub(super) const SLACK: Duration = Duration::from_millis(50);

/// To one server, or to all of a Cluster.
#[derive(Clone)]
pub(super) enum Wire {
    One(MultiplexedConnection),
    #[cfg(feature = "redis-cluster")]
    Cluster(redis::cluster_async::ClusterConnection),
}

/// Waits for a part of connecting.
async fn bounded<T>(options: &RedisOptions, part: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    timeout(options.connection_timeout + SLACK, part).await.unwrap_or_else(|_| Err(timed_out()))
}

/// Opens a connection. Nothing is retried, and the script cache is not asked.
pub(super) async fn open(address: &Address, options: &RedisOptions) -> RedisResult<Wire> {
    match address {
        Address::One(client) => bounded(options, one(client, options)).await,
        #[cfg(feature = "redis-sentinel")]
        Address::Sentinel(sentinels) => {
            let master = bounded(options, sentinels.master()).await?;
            bounded(options, one(&master, options)).await
        }
        #[cfg(feature = "redis-cluster")]
        Address::Cluster(nodes, trust) => {
            let builder = redis::cluster::ClusterClient::builder(nodes.clone())
                .retries(0)
                .connection_timeout(options.connection_timeout)
                .response_timeout(options.response_timeout);
            bounded(options, trust.cluster(builder).build()?.get_async_connection()).await.map(Wire::Cluster)
        }
    }
}

async fn one(client: &redis::Client, options: &RedisOptions) -> RedisResult<Wire> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(options.connection_timeout))
        .set_response_timeout(Some(options.response_timeout));
    client.get_multiplexed_async_connection_with_config(&config).await.map(Wire::One)
}

pub(super) async fn exchange(wire: Wire, commands: &[Cmd]) -> RedisResult<Vec<Result<Value, ServerError>>> {
    match wire {
        Wire::One(mut connection) => {
            let mut pipeline = Pipeline::with_capacity(commands.len());
            for command in commands {
                pipeline.add_command(command.clone());
            }
            let values = connection.req_packed_commands(&pipeline, 0, commands.len()).await?;
            Ok(values.into_iter().map(answer).collect())
        }
        // One pipeline would have to keep to one slot. What is sent to one node is executed in the order it is sent.
        #[cfg(feature = "redis-cluster")]
        Wire::Cluster(connection) => {
            let sent = commands.iter().map(|command| {
                let mut connection = connection.clone();
                async move { connection.req_packed_command(command).await }
            });
            let answers = futures::future::join_all(sent).await;
            answers.into_iter().map(each).collect()
        }
    }
}

fn answer(value: Value) -> Result<Value, ServerError> {
    if let Value::ServerError(error) = value { Err(error) } else { Ok(value) }
}

#[cfg(feature = "redis-cluster")]
fn each(answer: RedisResult<Value>) -> RedisResult<Result<Value, ServerError>> {
    match answer {
        Ok(value) => Ok(self::answer(value)),
        Err(error) => match error.clone().into_server_errors() {
            Some(errors) if !errors.is_empty() => Ok(Err(errors[0].1.clone())),
            _ => Err(error),
        },
    }
}

/// As if the client library had said so.
pub(super) fn timed_out() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}
