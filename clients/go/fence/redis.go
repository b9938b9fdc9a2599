package fence

import (
	"context"
	"fmt"
	"strconv"

	"github.com/rosterd/rosterd/clients/go"
)

// Evaluate evaluates a Lua script in Redis. With go-redis:
//
//	func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
//		return client.Eval(ctx, script, keys, args...).Result()
//	}
type Evaluate func(ctx context.Context, script string, keys []string, args ...any) (any, error)

// Keys writes keys of Redis for runs of an item: hashes with the fields token and value. A script compares the token
// and writes, with no other command in between.
type Keys struct {
	Evaluate Evaluate
}

// Lua counts in floating point: tokens of 63 bits are compared as text, by length and then character by character.
const (
	compareScript = `
local seen = redis.call('HGET', KEYS[1], 'token')
if seen and (#seen > #ARGV[1] or (#seen == #ARGV[1] and seen > ARGV[1])) then return {0, seen} end
`
	setScript   = compareScript + "redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2]) return {1, ARGV[1]}"
	claimScript = compareScript + "redis.call('HSET', KEYS[1], 'token', ARGV[1]) return {1, ARGV[1]}"
)

// Set returns a *FencedError if a run with a higher token has written the key.
func (k Keys) Set(ctx context.Context, key, value string, run *rosterd.Run) error {
	return k.judge(ctx, setScript, key, run, value)
}

// Claim claims the key for the run without a value: lower tokens are refused from then on.
func (k Keys) Claim(ctx context.Context, key string, run *rosterd.Run) error {
	return k.judge(ctx, claimScript, key, run)
}

func (k Keys) judge(ctx context.Context, script, key string, run *rosterd.Run, values ...any) error {
	args := append([]any{strconv.FormatInt(run.Token, 10)}, values...)
	answer, err := k.Evaluate(ctx, script, []string{key}, args...)
	if err != nil {
		return err
	}
	parts, is := answer.([]any)
	if !is || len(parts) != 2 {
		return fmt.Errorf("key %s: the script answers %v, which is no pair", key, answer)
	}
	if fmt.Sprint(parts[0]) == "1" {
		return nil
	}
	seen, err := strconv.ParseInt(fmt.Sprint(parts[1]), 10, 64)
	if err != nil {
		return fmt.Errorf("key %s: its token is no number: %w", key, err)
	}
	return &FencedError{What: "key " + key, Token: run.Token, Seen: seen}
}
