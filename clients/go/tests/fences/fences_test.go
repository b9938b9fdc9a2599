package fences

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/rosterd/rosterd/clients/go"
	"github.com/rosterd/rosterd/clients/go/fence"
)

// Two tokens that a double cannot tell apart, and one of another length.
const (
	older = 9_007_199_254_740_993
	newer = 9_007_199_254_740_994
	short = 999_999_999_999_999
)

func run(token int64) *rosterd.Run {
	return &rosterd.Run{Job: "hello", Token: token}
}

// fenced checks that the error is a FencedError with the token that was seen.
func fenced(t *testing.T, err error, seen int64) {
	t.Helper()
	var found *fence.FencedError
	if !errors.As(err, &found) || !errors.Is(err, fence.ErrFenced) || found.Seen != seen {
		t.Errorf("the error is %v", err)
	}
}

func good(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ---- PostgreSQL

func database(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", fmt.Sprintf("postgres://tests@127.0.0.1:%s/postgres", startPostgres(t)))
	good(t, err)
	t.Cleanup(func() { _ = db.Close() })
	until(t, "PostgreSQL", db.Ping)
	for _, text := range []string{"CREATE TABLE account (id int PRIMARY KEY, amount int, token bigint NOT NULL DEFAULT 0)", "INSERT INTO account VALUES (1, 0)"} {
		_, err := db.Exec(text)
		good(t, err)
	}
	return db
}

func amount(t *testing.T, db *sql.DB) (found int) {
	t.Helper()
	good(t, db.QueryRow("SELECT amount FROM account").Scan(&found))
	return found
}

func set(to int) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.Exec("UPDATE account SET amount = $1", to)
		return err
	}
}

func TestPostgreSQL(t *testing.T) {
	db := database(t)
	ctx := t.Context()
	fresh := func(t *testing.T) fence.Tokens {
		t.Helper()
		_, err := db.Exec("DROP TABLE IF EXISTS rosterd_tokens")
		good(t, err)
		tokens := fence.Tokens{DB: db}
		good(t, tokens.Create(ctx))
		good(t, tokens.Create(ctx))
		return tokens
	}

	t.Run("a transaction of an older run is refused and leaves nothing", func(t *testing.T) {
		tokens := fresh(t)
		for amount, token := range []int64{short, older, newer, newer} {
			good(t, tokens.Transaction(ctx, run(token), set(amount+1)))
		}
		err := tokens.Transaction(ctx, run(older), set(5))
		fenced(t, err, newer)
		if !strings.Contains(err.Error(), "hello/0: token 9007199254740993 came too late, token 9007199254740994 was seen") {
			t.Error(err)
		}
		fenced(t, tokens.Transaction(ctx, run(short), set(6)), newer)
		if found := amount(t, db); found != 4 {
			t.Errorf("the amount is %d", found)
		}
		// Each item has tokens of its own.
		good(t, tokens.Transaction(ctx, &rosterd.Run{Job: "hello", Item: 1, Token: 1}, set(7)))
	})

	t.Run("a newer run waits for the older one's transaction and then outbids it", func(t *testing.T) {
		tokens := fresh(t)
		inside, done := make(chan struct{}), make(chan error, 1)
		release := make(chan struct{})
		go func() {
			done <- tokens.Transaction(ctx, run(older), func(tx *sql.Tx) error {
				close(inside)
				<-release
				return set(1)(tx)
			})
		}()
		<-inside
		second := make(chan error, 1)
		go func() { second <- tokens.Transaction(ctx, run(newer), set(2)) }()
		until(t, "the newer one waits", func() error {
			var waiting int
			query := "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
			if err := db.QueryRow(query).Scan(&waiting); err != nil || waiting > 0 {
				return err
			}
			return errors.New("it does not")
		})
		close(release)
		good(t, <-done)
		good(t, <-second)
		if found := amount(t, db); found != 2 {
			t.Errorf("the amount is %d", found)
		}
	})

	t.Run("what fails in a transaction is rolled back and returned", func(t *testing.T) {
		tokens := fresh(t)
		good(t, tokens.Transaction(ctx, run(1), set(0)))
		boom := errors.New("boom")
		err := tokens.Transaction(ctx, run(older), func(tx *sql.Tx) error { return errors.Join(set(1)(tx), boom) })
		if !errors.Is(err, boom) || amount(t, db) != 0 {
			t.Errorf("%v, %d", err, amount(t, db))
		}
		good(t, tokens.Check(ctx, run(short)))
	})

	t.Run("a look tells an older run to stop early", func(t *testing.T) {
		tokens := fresh(t)
		good(t, tokens.Check(ctx, run(older)))
		good(t, tokens.Transaction(ctx, run(newer), set(1)))
		good(t, tokens.Check(ctx, run(newer)))
		fenced(t, tokens.Check(ctx, run(older)), newer)
		if err := (fence.Tokens{DB: db, Table: "bad; name"}).Create(ctx); err == nil || !strings.Contains(err.Error(), "only lower-case names") {
			t.Errorf("the error is %v", err)
		}
	})

	t.Run("a column for the token needs no table, as the README has it", func(t *testing.T) {
		write := func(amount int, token int64) int64 {
			done, err := db.ExecContext(ctx, "UPDATE account SET amount = $1, token = $2 WHERE id = $3 AND token <= $2", amount, token, 1)
			good(t, err)
			rows, err := done.RowsAffected()
			good(t, err)
			return rows
		}
		if write(8, newer) != 1 || write(9, older) != 0 || amount(t, db) != 8 {
			t.Errorf("the amount is %d", amount(t, db))
		}
	})
}

// ---- Redis

func TestRedis(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: startRedis(t), DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	ctx := t.Context()
	until(t, "Redis", func() error { return client.Ping(ctx).Err() })
	keys := fence.Keys{Evaluate: func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		return client.Eval(ctx, script, keys, args...).Result()
	}}
	good(t, keys.Set(ctx, "k", "short", run(short)))
	good(t, keys.Set(ctx, "k", "old", run(older)))
	good(t, keys.Set(ctx, "k", "new", run(newer)))
	good(t, keys.Set(ctx, "k", "new again", run(newer)))
	for _, token := range []int64{older, short} {
		fenced(t, keys.Set(ctx, "k", "late", run(token)), newer)
		fenced(t, keys.Claim(ctx, "k", run(token)), newer)
	}
	found, err := client.HGetAll(ctx, "k").Result()
	good(t, err)
	if found["value"] != "new again" || found["token"] != fmt.Sprint(newer) || len(found) != 2 {
		t.Errorf("%v", found)
	}
	good(t, keys.Claim(ctx, "claimed", run(newer)))
	fenced(t, keys.Set(ctx, "claimed", "late", run(older)), newer)
}
