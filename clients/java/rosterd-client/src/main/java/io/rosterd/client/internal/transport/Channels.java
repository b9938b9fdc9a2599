package io.rosterd.client.internal.transport;

import io.grpc.Metadata;
import io.grpc.netty.shaded.io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslContextBuilder;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslProvider;
import io.rosterd.client.InvalidOptionException;
import io.rosterd.client.internal.machine.Address;
import io.rosterd.client.internal.machine.Machine;
import io.rosterd.client.internal.machine.Route;
import java.io.IOException;
import java.io.InputStream;
import java.util.concurrent.TimeUnit;

/** Channels to coordinators. */
public final class Channels {
    private static final int MAX_MESSAGE = 4 * 1024 * 1024;
    private static final Metadata.Key<String> AUTHORIZATION =
            Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

    private Channels() {}

    /**
     * Begins a channel.
     *
     * @param address the coordinator
     * @param access how it is secured
     * @return its builder
     * @throws IOException if a certificate cannot be read
     */
    public static NettyChannelBuilder to(String address, Access access) throws IOException {
        // A coordinator may name others: the credential goes to none of them in plain text.
        if (access.exposes(address)) throw new InvalidOptionException(Access.exposed(address));
        Address where = new Address(address);
        NettyChannelBuilder builder = NettyChannelBuilder.forAddress(where.host(), where.port())
                .userAgent("rosterd-java/" + Machine.VERSION)
                .keepAliveTime(20, TimeUnit.SECONDS)
                .keepAliveTimeout(5, TimeUnit.SECONDS)
                .maxInboundMessageSize(MAX_MESSAGE)
                .flowControlWindow(MAX_MESSAGE)
                .disableRetry();
        // Connections to this machine do not use a proxy from the environment.
        if (where.isLoopback()) builder.proxyDetector(target -> null);
        if (!Route.secure(address)) return builder.usePlaintext();
        SslContextBuilder tls = GrpcSslContexts.configure(SslContextBuilder.forClient(), SslProvider.JDK);
        if (access.rootCertificates().isPresent()) {
            try (InputStream roots = access.rootCertificates().read()) {
                tls.trustManager(roots);
            }
        }
        if (access.clientCertificate().isPresent()) {
            try (InputStream certificate = access.clientCertificate().read();
                    InputStream key = access.clientKey().read()) {
                tls.keyManager(certificate, key);
            }
        }
        return builder.sslContext(tls.build());
    }

    /** {@return the headers of every call} */
    public static Metadata metadata(Access access) {
        Metadata metadata = new Metadata();
        if (!access.credential().isEmpty()) metadata.put(AUTHORIZATION, "Bearer " + access.credential());
        return metadata;
    }
}
