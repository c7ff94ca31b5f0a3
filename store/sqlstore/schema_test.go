package sqlstore

import (
	"context"
	"database/sql/driver"
	_ "embed"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// schema3 is the schema of the first release. It never changes.
//
//go:embed testdata/schema-3.sql
var schema3 string

var comment = regexp.MustCompile(`--[^\n]*`)

// shapeOf returns the statements of the tables and indexes of a database, without comments.
func shapeOf(t *testing.T, c *conn) map[string]string {
	t.Helper()
	shape := make(map[string]string)
	err := c.rows(func(row []driver.Value) bool {
		name, _ := row[0].(string)
		text, _ := row[1].(string)
		shape[name] = strings.Join(strings.Fields(comment.ReplaceAllString(text, "")), " ")
		return true
	}, "SELECT name, sql FROM sqlite_schema")
	if err != nil {
		t.Fatal(err)
	}
	return shape
}

func TestTheStepsLeadFromTheFirstSchemaToTheSchemaOfANewStore(t *testing.T) {
	s, err := newStore(Options{})
	if err != nil {
		t.Fatal(err)
	}
	shape := func(text string, from int) map[string]string {
		c, err := connect("", "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.close() }()
		if err = c.run(text); err == nil {
			err = s.takeSteps(context.Background(), c, from)
		}
		if err != nil {
			t.Fatal(err)
		}
		return shapeOf(t, c)
	}
	if diff := cmp.Diff(shape(schema, firstSchema+len(steps)), shape(schema3, firstSchema)); diff != "" {
		t.Errorf("a new store, and one of the first release after %d steps, differ; a change of the schema needs a step:\n%s", len(steps), diff)
	}
}
