package fence

import (
	"context"
	"fmt"
	"strconv"

	"github.com/rosterd/rosterd/clients/go"
)

// TokenMetadata is the metadata of an object that holds the token of the run that wrote it (x-amz-meta-rosterd-token).
const TokenMetadata = "rosterd-token"

// maxPuts bounds the attempts: an object that changes this often is written without fences.
const maxPuts = 10

// ObjectHead is the metadata of an existing object.
type ObjectHead struct {
	ETag string
	// Token is the metadata TokenMetadata; empty: it was not written by a fence.
	Token string
}

// ObjectStore is the two requests of the program's own client of S3 that a fence needs.
type ObjectStore interface {
	// Head is HeadObject; nil: there is none.
	Head(ctx context.Context, key string) (*ObjectHead, error)
	// Put is PutObject with the metadata, and with `If-Match: ifMatch`, or `If-None-Match: *` if that is empty. False: the
	// condition did not hold (412, 409 for a conflict, or 404 if the object with the ETag is gone).
	Put(ctx context.Context, key string, body []byte, ifMatch string, metadata map[string]string) (bool, error)
}

// Object is one object that runs of an item write. It carries the token of the run that wrote it, and is put only if it
// has not changed since the fence read it.
//
// An ETag is made from the body: two runs that write the very same bytes make one ETag, and the fence does not detect a
// late run between them. So make the body of each run different, for example by a field with its token.
type Object struct {
	Store ObjectStore
	Key   string
}

// Put returns a *FencedError if a run with a higher token has written the object.
func (o Object) Put(ctx context.Context, body []byte, run *rosterd.Run) error {
	what := "object " + o.Key
	metadata := map[string]string{TokenMetadata: strconv.FormatInt(run.Token, 10)}
	for range maxPuts {
		head, err := o.Store.Head(ctx, o.Key)
		if err != nil {
			return err
		}
		etag := ""
		if head != nil {
			etag = head.ETag
			if err := judge(what, head.Token, run); err != nil {
				return err
			}
		}
		written, err := o.Store.Put(ctx, o.Key, body, etag, metadata)
		if err != nil || written {
			return err
		}
		// Another writer was quicker: its token decides.
	}
	return fmt.Errorf("%s: it changed %d times while it was to be written: is it written without fences?", what, maxPuts)
}

func judge(what, token string, run *rosterd.Run) error {
	if token == "" {
		return nil
	}
	seen, err := strconv.ParseInt(token, 10, 64)
	if err != nil {
		return fmt.Errorf("%s: its token is no number: %w", what, err)
	}
	if seen > run.Token {
		return &FencedError{What: what, Token: run.Token, Seen: seen}
	}
	return nil
}
