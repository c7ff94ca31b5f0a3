package daemon

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// admitted returns an admission whose inner paths say "inner".
func admitted() *admission {
	a := newAdmission(func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer good" })
	says := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	}
	a.paths.Store(&paths{open: says("open"), inner: says("inner")})
	return a
}

func (a *admission) ask(method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:7780"+path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

// Each path but three needs a credential, also one that nobody has added yet.
func TestOP30EachPathNeedsACredential(t *testing.T) {
	a := admitted()
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		if w := a.ask("GET", path); w.Code != 200 || w.Body.String() != "open" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/", "/page.js", "/status", "/store/tasks", "/actions", "/audit", "/live", "/permissions", "/partners/x/tools", "/metrics/", "/livez/../status", "//livez", "/later"} {
		for _, method := range []string{"GET", "POST", "HEAD", "DELETE"} {
			if w := a.ask(method, path); w.Code != 401 {
				t.Errorf("%s %s without a credential: %d %s", method, path, w.Code, w.Body)
			}
			if w := a.ask(method, path, "Authorization", "Bearer bad"); w.Code != 401 {
				t.Errorf("%s %s with a wrong token: %d", method, path, w.Code)
			}
			if w := a.ask(method, path, "Authorization", "Bearer good"); w.Code != 200 || w.Body.String() != "inner" && method != "HEAD" {
				t.Errorf("%s %s with a token: %d %s", method, path, w.Code, w.Body)
			}
		}
	}
}

func TestOP30PagesOfOtherOriginsStartNothing(t *testing.T) {
	a := admitted()
	for _, path := range []string{"/livez", "/status", "/partners/x/tools", "/open?once=x"} {
		for _, header := range [][]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"},
			{"Origin", "http://127.0.0.1:7781"}, {"Origin", "https://127.0.0.1:7780"},
		} {
			if w := a.ask("GET", path, append(header, "Authorization", "Bearer good")...); w.Code != 403 {
				t.Errorf("%s with %s: %d", path, header, w.Code)
			}
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost"+path, http.NoBody)
			r.Header.Set(header[0], header[1])
			if a.local().ServeHTTP(w, r); w.Code != 403 {
				t.Errorf("%s with %s at the socket: %d", path, header, w.Code)
			}
		}
	}
	for _, header := range [][]string{{"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "same-origin"}, {"Origin", "http://127.0.0.1:7780"}} {
		if w := a.ask("GET", "/status", append(header, "Authorization", "Bearer good")...); w.Code != 200 {
			t.Errorf("own page with %s: %d", header, w.Code)
		}
	}
}

// opened opens a one-use address.
func (a *admission) opened(t *testing.T, path string) string {
	t.Helper()
	w := a.ask("GET", path)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	c := w.Result().Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.MaxAge != 12*3600 {
		t.Errorf("cookie %+v", c)
	}
	return c.Name + "=" + c.Value
}

func TestOP30AnAddressOfThePageOpensOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := admitted()
		invited := func() string {
			to, ok := a.invite("127.0.0.1:7780")
			if !ok {
				t.Fatal("no address")
			}
			return to.Path
		}
		first := invited()
		cookie := a.opened(t, first)
		if w := a.ask("GET", first); w.Code != 403 {
			t.Errorf("a second time: %d", w.Code)
		}
		late := invited()
		time.Sleep(ticketFor)
		if w := a.ask("GET", late); w.Code != 403 {
			t.Errorf("after a minute: %d", w.Code)
		}
		in := func(cookie string) bool { return a.ask("GET", "/status", "Cookie", cookie).Code == 200 }
		if !in(cookie) || in(cookie[:len(cookie)-1]) || in(a.cookie+"=") {
			t.Error("the session of the cookie is not the only one")
		}
		time.Sleep(sessionIdle - 1)
		if !in(cookie) {
			t.Error("over before it was idle for long")
		}
		time.Sleep(sessionIdle)
		if in(cookie) {
			t.Error("idle for long, and not over")
		}
		cookie = a.opened(t, invited())
		for range int(sessionFor/(sessionIdle/2)) - 1 {
			time.Sleep(sessionIdle / 2)
			if !in(cookie) {
				t.Fatal("in use, and over")
			}
		}
		time.Sleep(sessionIdle / 2)
		if in(cookie) {
			t.Error("12 hours old, and not over")
		}
		for range maxTickets {
			invited()
		}
		if _, ok := a.invite(""); ok {
			t.Error("one address more than the bound")
		}
		time.Sleep(ticketFor)
		kept := a.opened(t, invited())
		for range maxSessions {
			in(kept)
			time.Sleep(time.Nanosecond)
			a.opened(t, invited())
		}
		if !in(kept) || len(a.sessions) != maxSessions {
			t.Errorf("the session in use has given way, or there are %d", len(a.sessions))
		}
	})
}

// once returns a one-use address of the page.
func (r *running) once() string {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://localhost/session", http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.socket().RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var to PageAddress
	if err := json.NewDecoder(resp.Body).Decode(&to); err != nil {
		r.t.Fatal(err)
	}
	return "http://" + to.Address + to.Path
}

// Another account of this machine reaches the loopback address, and not the files of the user of swpd.
func TestOP30AnotherAccountLearnsNothingOfCallers(t *testing.T) {
	r := start(t, "store: memory\n"+ruleAll)
	s := r.mustDial(r.addrs[0])
	if err := echo(t, s); err != nil {
		t.Fatal(err)
	}
	ask := func(path, cookie string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.admin+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Cookie", cookie)
		own := &http.Transport{DisableKeepAlives: true}
		resp, err := own.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	for _, path := range []string{"/status", "/audit", "/store/states", "/permissions?identity=x", "/live", "/"} {
		if status, text := ask(path, ""); status != http.StatusUnauthorized || strings.Contains(text, clientID) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		if status, text := ask(path, ""); status != 200 || strings.Contains(text, clientID) {
			t.Errorf("%s: %d, or it names a caller", path, status)
		}
	}
	socket := filepath.Join(r.dir, "data", "admin.sock")
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info.Mode(), err)
	}
	once, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.once(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(once)
	if err != nil {
		t.Fatal(err)
	}
	_ = opened.Body.Close()
	cookie := opened.Header.Get("Set-Cookie")
	if status, text := ask("/status", cookie[:strings.Index(cookie, ";")]); status != 200 || !strings.Contains(text, `"version"`) {
		t.Errorf("with the session: %d %s", status, text)
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(socket); err == nil {
		t.Error("the socket outlives swpd")
	}
}
