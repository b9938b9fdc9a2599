# syntax=docker/dockerfile:1

# The labels of the images: docker build --build-arg REVISION=$(git rev-parse HEAD)
ARG VERSION=0.1.0
ARG REVISION=unknown

FROM rust:1.95-slim-bookworm AS build
# SQLite is compiled in.
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY . .
# The registry and the target folder stay on the builder, so that a change of a source compiles only what it affects.
# The whole program is then optimized again, which takes minutes.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/build/target,sharing=locked \
    cargo build --profile dist --locked --bin rosterd \
    && install -D target/dist/rosterd /out/rosterd \
    && install -d /out/data

# For workers that run shell commands: docker build --target worker
FROM debian:bookworm-slim AS worker
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="rosterd exec" \
      org.opencontainers.image.description="A distributed scheduler for sharded cron jobs: workers that run programs" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.source="https://github.com/rosterd/rosterd" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/rosterd /usr/local/bin/rosterd
USER nobody
STOPSIGNAL SIGTERM
ENTRYPOINT ["rosterd", "exec"]

FROM gcr.io/distroless/cc-debian12:nonroot
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="rosterd" \
      org.opencontainers.image.description="A distributed scheduler for sharded cron jobs" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.source="https://github.com/rosterd/rosterd" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/rosterd /usr/local/bin/rosterd
COPY --from=build --chown=nonroot:nonroot /out/data /data
USER nonroot
VOLUME /data
EXPOSE 7700
STOPSIGNAL SIGTERM
ENV ROSTERD_DATA_DIR=/data/rosterd \
    ROSTERD_LISTEN=0.0.0.0:7700
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 CMD ["rosterd", "probe"]
ENTRYPOINT ["rosterd"]
# Everybody outside of the container can reach it: set credentials (ROSTERD_CREDENTIALS=/file) and a certificate
# (ROSTERD_TLS_CERT, ROSTERD_TLS_KEY; then the probe needs ROSTERD_SERVER=https://… and ROSTERD_CA), or
# ROSTERD_INSECURE_LISTEN=true. It does not start without either.
CMD ["serve"]
