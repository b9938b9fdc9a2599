package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"

	"github.com/rosterd/rosterd/clients/go"
)

// Tokens is a table of PostgreSQL with a row per item, which holds the highest token. Locking and comparing it in the
// transaction that writes makes all its writes conditional.
//
// If the written row has a column for the token, no table is needed:
//
//	UPDATE account SET …, token = $1 WHERE id = $2 AND token <= $1
//
// and no row means that the run is fenced.
type Tokens struct {
	DB *sql.DB
	// Table is rosterd_tokens by default: lower-case, with a schema or without.
	Table string
}

var tableName = regexp.MustCompile(`^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$`)

func (t Tokens) table() (string, error) {
	if t.Table == "" {
		return "rosterd_tokens", nil
	}
	if !tableName.MatchString(t.Table) {
		return "", fmt.Errorf("table %q: only lower-case names, with a schema or without", t.Table)
	}
	return t.Table, nil
}

// Create creates the table if it is absent.
func (t Tokens) Create(ctx context.Context) error {
	table, err := t.table()
	if err != nil {
		return err
	}
	_, err = t.DB.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+table+
		" (job text NOT NULL, item integer NOT NULL, token bigint NOT NULL, PRIMARY KEY (job, item))")
	return err
}

// Transaction carries out write in a transaction that is committed only if no higher token was seen for the run's item;
// it returns a *FencedError otherwise. The item's row stays locked until the end, so that a newer run waits and then
// claims it.
func (t Tokens) Transaction(ctx context.Context, run *rosterd.Run, write func(tx *sql.Tx) error) (err error) {
	table, err := t.table()
	if err != nil {
		return err
	}
	tx, err := t.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	// The first error counts; after a commit it does nothing.
	defer func() { _ = tx.Rollback() }()
	done, err := tx.ExecContext(ctx, "INSERT INTO "+table+" AS seen (job, item, token) VALUES ($1, $2, $3) "+
		"ON CONFLICT (job, item) DO UPDATE SET token = excluded.token WHERE seen.token <= excluded.token",
		run.Job, run.Item, run.Token)
	if err != nil {
		return err
	}
	if written, err := done.RowsAffected(); err != nil {
		return err
	} else if written != 1 {
		seen, err := t.seen(ctx, tx, table, run)
		return errors.Join(fenced(run, seen), err)
	}
	if err := write(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Check returns a *FencedError if a higher token was seen. It locks nothing, and a newer run may begin right after it: it saves
// work, and does not replace Transaction.
func (t Tokens) Check(ctx context.Context, run *rosterd.Run) error {
	table, err := t.table()
	if err != nil {
		return err
	}
	seen, err := t.seen(ctx, t.DB, table, run)
	if err != nil || seen <= run.Token {
		return err
	}
	return fenced(run, seen)
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, given ...any) *sql.Row
}

// seen is 0 if there was no token.
func (t Tokens) seen(ctx context.Context, from querier, table string, run *rosterd.Run) (seen int64, err error) {
	row := from.QueryRowContext(ctx, "SELECT token FROM "+table+" WHERE job = $1 AND item = $2", run.Job, run.Item)
	if err := row.Scan(&seen); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	return seen, nil
}

func fenced(run *rosterd.Run, seen int64) error {
	return &FencedError{What: fmt.Sprintf("%s/%d", run.Job, run.Item), Token: run.Token, Seen: seen}
}
