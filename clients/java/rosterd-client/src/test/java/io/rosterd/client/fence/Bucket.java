package io.rosterd.client.fence;

import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.HeadObjectResponse;
import software.amazon.awssdk.services.s3.model.NoSuchKeyException;
import software.amazon.awssdk.services.s3.model.S3Exception;

/** A bucket of a real server, with Amazon's own client, as in a program that uses the fence. */
final class Bucket implements ObjectFence.Store, AutoCloseable {
    private static final String NAME = "reports";
    /** The condition failed; a concurrent write; the object to match is gone. */
    private static final Set<Integer> LOST = Set.of(412, 409, 404);

    private final S3Client client;
    /** Runs right before the next put, once. */
    Runnable between = () -> {};

    int puts;

    Bucket(int port) {
        client = S3Client.builder()
                .endpointOverride(URI.create("http://127.0.0.1:" + port))
                .region(Region.US_EAST_1)
                .forcePathStyle(true)
                .credentialsProvider(StaticCredentialsProvider.create(AwsBasicCredentials.create("tests", "tests")))
                .httpClient(UrlConnectionHttpClient.create())
                .build();
    }

    void create() {
        client.createBucket(request -> request.bucket(NAME));
    }

    @Override
    public Optional<ObjectFence.Head> head(String key) {
        try {
            HeadObjectResponse head =
                    client.headObject(request -> request.bucket(NAME).key(key));
            Optional<String> token = Optional.ofNullable(head.metadata().get(ObjectFence.METADATA));
            return Optional.of(new ObjectFence.Head(head.eTag(), token));
        } catch (NoSuchKeyException none) {
            return Optional.empty();
        }
    }

    @Override
    public boolean put(String key, byte[] body, Optional<String> etag, Map<String, String> metadata) {
        Runnable first = between;
        between = () -> {};
        first.run();
        puts++;
        try {
            client.putObject(
                    request -> {
                        request.bucket(NAME).key(key).metadata(metadata);
                        etag.ifPresentOrElse(request::ifMatch, () -> request.ifNoneMatch("*"));
                    },
                    RequestBody.fromBytes(body));
            return true;
        } catch (S3Exception error) {
            if (LOST.contains(error.statusCode())) return false;
            throw error;
        }
    }

    String read(String key) {
        return client.getObjectAsBytes(request -> request.bucket(NAME).key(key)).asString(StandardCharsets.UTF_8);
    }

    void delete(String key) {
        client.deleteObject(request -> request.bucket(NAME).key(key));
    }

    @Override
    public void close() {
        client.close();
    }
}
