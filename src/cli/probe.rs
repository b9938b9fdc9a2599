//! `rosterd probe`: whether a coordinator is serving, for health checks of containers and scripts.

use clap::Args;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::failure::{Failure, Result};
use super::server::{Server, refused};

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
            // Health is open to everybody, and a probe may be sent anywhere: the credential stays here.
            let access = self.server.identity.without_credential()?;
            let channel = self.server.channel(&access).await?;
            let answer = HealthClient::new(channel)
                .check(HealthCheckRequest { service: self.service.clone() })
                .await
                .map_err(|status| refused(&access, &self.server.server.join(","), status))?;
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
