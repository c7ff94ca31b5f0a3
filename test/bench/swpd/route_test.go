package swpd

import "testing"

func TestRouteIsReadBack(t *testing.T) {
	for _, row := range []struct {
		route          Route
		name, endpoint string
	}{
		{Route{"127.0.0.1:1", "127.0.0.1:1", ""}, "swp.echo", "127.0.0.1:1"},
		{Route{"127.0.0.1:1", "127.0.0.1:2", "far"}, "far/swp.echo", "127.0.0.1:1/far"},
	} {
		if got := ParseRoute(row.route.String()); got != row.route {
			t.Errorf("%v is read as %v", row.route, got)
		}
		if got := row.route.Name("swp.echo"); got != row.name {
			t.Errorf("name by %v: %q, want %q", row.route, got, row.name)
		}
		if got := row.route.Endpoint(); got != row.endpoint {
			t.Errorf("endpoint by %v: %q, want %q", row.route, got, row.endpoint)
		}
	}
}
