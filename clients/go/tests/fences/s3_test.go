package fences

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/rosterd/rosterd/clients/go/fence"
)

const tokenHeader = "x-amz-meta-" + fence.TokenMetadata

// bucket is one of a server compatible with S3, used like in a program without an SDK.
type bucket struct {
	url string
	// between runs between head and put, once.
	between func()
}

func newBucket(t *testing.T) *bucket {
	t.Helper()
	backend := s3mem.New()
	good(t, backend.CreateBucket("reports"))
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	return &bucket{url: server.URL + "/reports/"}
}

func (b *bucket) ask(ctx context.Context, method, key string, body []byte, headers map[string]string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, b.url+key, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	return http.DefaultClient.Do(request)
}

func (b *bucket) Head(ctx context.Context, key string) (*fence.ObjectHead, error) {
	response, err := b.ask(ctx, http.MethodHead, key, nil, nil)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return &fence.ObjectHead{ETag: response.Header.Get("ETag"), Token: response.Header.Get(tokenHeader)}, nil
	case http.StatusNotFound:
		return nil, nil
	default:
		return nil, fmt.Errorf("HEAD %s: %s", key, response.Status)
	}
}

func (b *bucket) Put(ctx context.Context, key string, body []byte, ifMatch string, metadata map[string]string) (bool, error) {
	if between := b.between; between != nil {
		b.between = nil
		between()
	}
	headers := map[string]string{"If-None-Match": "*"}
	if ifMatch != "" {
		headers = map[string]string{"If-Match": ifMatch}
	}
	for name, value := range metadata {
		headers["x-amz-meta-"+name] = value
	}
	response, err := b.ask(ctx, http.MethodPut, key, body, headers)
	if err != nil {
		return false, err
	}
	_ = response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return true, nil
	case http.StatusPreconditionFailed, http.StatusConflict, http.StatusNotFound:
		return false, nil
	default:
		return false, fmt.Errorf("PUT %s: %s", key, response.Status)
	}
}

func (b *bucket) holds(t *testing.T, key, want string) {
	t.Helper()
	response, err := b.ask(t.Context(), http.MethodGet, key, nil, nil)
	good(t, err)
	body, err := io.ReadAll(response.Body)
	good(t, err)
	good(t, response.Body.Close())
	if string(body) != want {
		t.Errorf("%s holds %q, not %q", key, body, want)
	}
}

func TestS3(t *testing.T) {
	b := newBucket(t)
	ctx := t.Context()
	put := func(key, body string, token int64) error {
		return fence.Object{Store: b, Key: key}.Put(ctx, []byte(body), run(token))
	}
	good(t, put("k", "short", short))
	good(t, put("k", "old", older))
	b.between = func() { good(t, put("k", "newer, meanwhile", newer)) }
	fenced(t, put("k", "late", older), newer)
	fenced(t, put("k", "later", short), newer)
	b.holds(t, "k", "newer, meanwhile")
	good(t, put("k", "newer again", newer))
	b.holds(t, "k", "newer again")
	// Two writers that both find nothing.
	b.between = func() { good(t, put("fresh", "newer", newer)) }
	fenced(t, put("fresh", "late", older), newer)
	b.holds(t, "fresh", "newer")
	// The object that was read is gone before it is replaced.
	b.between = func() {
		response, err := b.ask(ctx, http.MethodDelete, "fresh", nil, nil)
		good(t, err)
		good(t, response.Body.Close())
	}
	good(t, put("fresh", "made anew", newer))
	b.holds(t, "fresh", "made anew")
}
