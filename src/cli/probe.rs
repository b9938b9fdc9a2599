//! `rosterd probe`: whether a coordinator is serving, for health checks of containers and scripts.

use std::time::Duration;

use clap::Args;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::failure::{Failure, Result};
use super::output::text::word;
use super::server::{Server, refused};
use rosterd_wire::proto::v1::GetServerInfoRequest;
use rosterd_wire::proto::v1::admin_service_client::AdminServiceClient;

/// How long may be asked why it does not serve; the answer of the probe is known by then.
const WHY: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// A service of the coordinator [default: the coordinator as a whole]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    service: String,
    #[command(flatten)]
    server: Server,
}

impl Probe {
    pub(crate) async fn run(self) -> Result {
        let asked = async {
            // Health is open to everybody, and a probe may be sent anywhere: the credential stays here.
            let mut to = self.server.resolve()?;
            to.access.credential = None;
            let channel = self.server.channel(&to).await?;
            let answer = HealthClient::new(channel.clone())
                .check(HealthCheckRequest { service: self.service.clone() })
                .await
                .map_err(|status| refused(&to.access, &to.names(), status))?;
            match answer.into_inner().status() {
                ServingStatus::Serving => Ok::<_, Failure>(None),
                status => Ok(Some(how(status, channel).await)),
            }
        };
        match tokio::time::timeout(self.server.timeout, asked).await {
            Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(how))) => Err(Failure::unavailable(format!("the coordinator is {how}"))),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::unavailable("no answer in time")),
        }
    }
}

/// What keeps it from serving, where it tells who shows no credential.
async fn how(status: ServingStatus, channel: Channel) -> String {
    let status = status.as_str_name();
    let mut admin = AdminServiceClient::new(channel);
    match tokio::time::timeout(WHY, admin.get_server_info(GetServerInfoRequest {})).await {
        Ok(Ok(info)) => {
            format!("{status}: {}", word(info.into_inner().health().as_str_name(), "SERVER_HEALTH_"))
        }
        Ok(Err(_)) | Err(_) => status.to_owned(),
    }
}
