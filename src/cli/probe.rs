//! `rosterd probe`: whether a coordinator is serving, for health checks of containers and scripts.

use clap::Args;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::failure::{Failure, Result};
use super::server::{Bearer, Server};

#[derive(Debug, Args)]
pub(crate) struct Probe {
    #[command(flatten)]
    server: Server,
    /// A service of the coordinator; default: as a whole
    #[arg(long, value_name = "NAME", default_value = "")]
    service: String,
}

impl Probe {
    pub(crate) async fn run(self) -> Result {
        let asked = async {
            let channel = self.server.channel().await?;
            let mut client = HealthClient::with_interceptor(channel, Bearer::from_env()?);
            let answer = client.check(HealthCheckRequest { service: self.service.clone() }).await?;
            Ok::<_, Failure>(answer.into_inner().status())
        };
        match tokio::time::timeout(self.server.timeout, asked).await {
            Ok(Ok(ServingStatus::Serving)) => Ok(()),
            Ok(Ok(status)) => {
                Err(Failure::unavailable(format!("the coordinator is {}", status.as_str_name())))
            }
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::unavailable("no answer in time")),
        }
    }
}
