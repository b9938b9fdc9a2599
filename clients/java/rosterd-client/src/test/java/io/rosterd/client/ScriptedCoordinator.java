package io.rosterd.client;

import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerInterceptors;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.StreamObserver;
import io.rosterd.v1.Hello;
import io.rosterd.v1.SessionRequest;
import io.rosterd.v1.SessionRequest.FrameCase;
import io.rosterd.v1.SessionResponse;
import io.rosterd.v1.Welcome;
import io.rosterd.v1.WorkerServiceGrpc;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A real gRPC server on loopback whose every frame a test writes. It acknowledges heartbeats by itself while {@link
 * #answersHeartbeats} is set; everything else waits for the test.
 */
final class ScriptedCoordinator implements AutoCloseable {
    private static final Context.Key<Metadata> METADATA = Context.key("metadata");
    private static final Set<FrameCase> QUIET =
            EnumSet.of(FrameCase.HEARTBEAT, FrameCase.RUN_STARTED, FrameCase.RUN_PROGRESS);

    private final Server server;
    private final BlockingQueue<Session> sessions = new LinkedBlockingQueue<>();
    private final AtomicInteger open = new AtomicInteger();
    private final AtomicInteger mostOpen = new AtomicInteger();
    volatile boolean answersHeartbeats = true;

    private ScriptedCoordinator(int port) throws IOException {
        server = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", port))
                .addService(ServerInterceptors.intercept(new Service(), new KeepsMetadata()))
                .build()
                .start();
    }

    static ScriptedCoordinator start() throws IOException {
        return new ScriptedCoordinator(0);
    }

    static ScriptedCoordinator start(int port) throws IOException {
        return new ScriptedCoordinator(port);
    }

    int port() {
        return server.getPort();
    }

    String address() {
        return "127.0.0.1:" + port();
    }

    int mostOpen() {
        return mostOpen.get();
    }

    Session accept() throws InterruptedException {
        Session session = sessions.poll(Until.PATIENCE_SECONDS, TimeUnit.SECONDS);
        if (session == null) throw new AssertionError("no stream comes");
        return session;
    }

    @Override
    public void close() throws InterruptedException {
        server.shutdownNow().awaitTermination(5, TimeUnit.SECONDS);
    }

    private final class Service extends WorkerServiceGrpc.WorkerServiceImplBase {
        @Override
        public StreamObserver<SessionRequest> session(StreamObserver<SessionResponse> answers) {
            Session session = new Session(answers, METADATA.get());
            mostOpen.accumulateAndGet(open.incrementAndGet(), Math::max);
            sessions.add(session);
            return session;
        }
    }

    private static final class KeepsMetadata implements ServerInterceptor {
        @Override
        public <Q, A> ServerCall.Listener<Q> interceptCall(
                ServerCall<Q, A> call, Metadata metadata, ServerCallHandler<Q, A> next) {
            Context context = Context.current().withValue(METADATA, metadata);
            return Contexts.interceptCall(context, call, metadata, next);
        }
    }

    /** One stream of a worker. */
    final class Session implements StreamObserver<SessionRequest> {
        private final StreamObserver<SessionResponse> answers;
        private final BlockingQueue<SessionRequest> arrived = new LinkedBlockingQueue<>();
        final Metadata metadata;
        volatile boolean ended;

        Session(StreamObserver<SessionResponse> answers, Metadata metadata) {
            this.answers = answers;
            this.metadata = metadata;
        }

        @Override
        public void onNext(SessionRequest frame) {
            if (frame.hasHeartbeat() && answersHeartbeats) {
                send(Frames.heartbeatAck(frame.getHeartbeat().getSequence()));
            }
            arrived.add(frame);
        }

        @Override
        public void onError(Throwable error) {
            end();
        }

        @Override
        public void onCompleted() {
            end();
        }

        private void end() {
            if (!ended) open.decrementAndGet();
            ended = true;
        }

        synchronized void send(SessionResponse... frames) {
            for (SessionResponse frame : frames) answers.onNext(frame);
        }

        void close(Status status) {
            end();
            if (status.isOk()) answers.onCompleted();
            else answers.onError(status.withDescription("as the script says").asRuntimeException());
        }

        /** The next frame that is not a quiet one, or is of this kind; it must be of this kind. */
        SessionRequest expect(FrameCase kind) throws InterruptedException {
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Until.PATIENCE_SECONDS);
            while (true) {
                SessionRequest frame = arrived.poll(end - System.nanoTime(), TimeUnit.NANOSECONDS);
                if (frame == null) throw new AssertionError(kind + " does not come");
                if (frame.getFrameCase() == kind) return frame;
                if (!QUIET.contains(frame.getFrameCase()))
                    throw new AssertionError("wanted " + kind + ", got " + frame);
            }
        }

        Hello greet() throws InterruptedException {
            return greet(Frames.welcome("w1"));
        }

        Hello greet(Welcome.Builder welcome) throws InterruptedException {
            Hello hello = expect(FrameCase.HELLO).getHello();
            send(Frames.of(welcome));
            String job = expect(FrameCase.REGISTER).getRegister().getJob();
            send(Frames.registered(job));
            return hello;
        }

        /** A leave with nothing left in flight. */
        void farewell() throws InterruptedException {
            expect(FrameCase.DRAIN_REQUEST);
            send(Frames.draining());
            expect(FrameCase.GOODBYE);
            send(Frames.goodbyeAck());
        }
    }
}
