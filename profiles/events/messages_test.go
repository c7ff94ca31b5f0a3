package events_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/proto/prototest"
)

type message interface {
	Decode([]byte) error
	Append([]byte) []byte
	Size() int
}

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	full := events.Record{
		EventID: []byte("é"), EventType: []byte("a.b"), Severity: []byte(" WARN"), Timestamp: 1 << 40,
		MsgID: []byte{0, 0xff}, TaskID: []byte{1}, RPCID: []byte{0xfe}, Body: []byte{0xfd},
	}
	least := events.Record{EventID: []byte("i"), EventType: []byte("t"), Severity: []byte("debug"), Timestamp: 1, RPCID: []byte("r")}
	const (
		fullText = `{event_id: "é" event_type: "a.b" severity: " WARN" ts_unix_ms: 1099511627776
			msg_id: "\000\377" task_id: "\001" rpc_id: "\376" body: "\375"}`
		leastText = `{event_id: "i" event_type: "t" severity: "debug" ts_unix_ms: 1 rpc_id: "r"}`
	)
	prototest.Agree(t, "events", map[string]prototest.Message{
		`publish {event ` + fullText + `}`:                                       &events.Publish{Event: full},
		`publish {event ` + leastText + `}`:                                      &events.Publish{Event: least},
		`subscribe {filter: "type:é"}`:                                           &events.Subscribe{Filter: []byte("type:é")},
		`subscribe {}`:                                                           &events.Subscribe{},
		`unsubscribe {subscription_id: "00ff"}`:                                  &events.Unsubscribe{SubscriptionID: []byte("00ff")},
		`batch {events [` + fullText + `, ` + leastText + `, ` + fullText + `]}`: &events.Batch{Events: []events.Record{full, least, full}},
		`batch {}`:                             &events.Batch{},
		`err {code: "NOT_FOUND" message: "é"}`: &events.Err{Code: []byte("NOT_FOUND"), Message: []byte("é")},
	})
}

// wrap puts an EventRecord into an EVT_PUBLISH.
func wrap(event []byte) []byte {
	inner := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), event)
	return protowire.AppendBytes(protowire.AppendTag(nil, events.TypePublish, protowire.BytesType), inner)
}

// form returns what is left of an EventRecord after it was decoded.
func form(t *testing.T, event []byte) []byte {
	t.Helper()
	var m events.Publish
	if err := m.Decode(wrap(event)); err != nil {
		t.Fatal(err)
	}
	return m.Append(nil)
}

func TestUnknownFieldsOfARecordAreKept(t *testing.T) {
	known := []byte("\x0a\x01i\x12\x01t\x1a\x04info\x20\x07\x32\x01x")
	var unknown []byte
	unknown = protowire.AppendTag(unknown, 100, protowire.BytesType)
	unknown = protowire.AppendString(unknown, "of a later schema")
	unknown = protowire.AppendTag(unknown, 9, protowire.StartGroupType)
	unknown = protowire.AppendVarint(protowire.AppendTag(unknown, 1, protowire.VarintType), 5)
	unknown = protowire.AppendTag(unknown, 9, protowire.EndGroupType)
	unknown = protowire.AppendFixed32(protowire.AppendTag(unknown, 11, protowire.Fixed32Type), 6)

	want := wrap(append(bytes.Clone(known), unknown...))
	if got := form(t, append(bytes.Clone(known), unknown...)); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if got := form(t, append(bytes.Clone(unknown), known...)); !bytes.Equal(got, want) {
		t.Errorf("unknown fields in front: %x, want %x", got, want)
	}
}

func TestSpellingsOfARecordHaveOneForm(t *testing.T) {
	plain := []byte("\x0a\x01i\x12\x01t\x1a\x04info\x20\x07\x32\x01x")
	for name, other := range map[string]string{
		"another order":      "\x32\x01x\x20\x07\x1a\x04info\x12\x01t\x0a\x01i",
		"longer varints":     "\x8a\x00\x81\x00i\x12\x01t\x1a\x04info\x20\x87\x80\x00\x32\x01x",
		"a field twice":      "\x0a\x01z\x0a\x01i\x12\x01t\x1a\x04info\x20\x09\x20\x07\x32\x01x",
		"an empty one":       "\x0a\x01i\x12\x01t\x1a\x04info\x20\x07\x32\x01x\x42\x00",
		"an empty, then not": "\x0a\x00\x0a\x01i\x12\x01t\x1a\x04info\x20\x07\x32\x01x",
	} {
		if got := form(t, []byte(other)); !bytes.Equal(got, wrap(plain)) {
			t.Errorf("%s: %x, want %x", name, got, wrap(plain))
		}
	}
}

// refused wants the error of a message that breaks a rule of the profile.
func refused(t *testing.T, err error, detail string) {
	t.Helper()
	var fault *profiles.Error
	if !errors.As(err, &fault) || fault.Code != profiles.InvalidProfilePayload || fault.Detail != detail {
		t.Errorf("error %v, want INVALID_PROFILE_PAYLOAD, detail %s", err, detail)
	}
}

func TestEvents0001RequiredFields(t *testing.T) {
	for name, change := range map[string]func(*events.Record){
		"event_id":    func(r *events.Record) { r.EventID = nil },
		"event_type":  func(r *events.Record) { r.EventType = nil },
		"severity":    func(r *events.Record) { r.Severity = nil },
		"ts_unix_ms":  func(r *events.Record) { r.Timestamp = 0 },
		"correlation": func(r *events.Record) { r.MsgID, r.TaskID, r.RPCID = nil, nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := record("a")
			change(&r)
			refused(t, new(events.Publish).Decode(publish(r)), p1.DetailRequired)
			refused(t, new(events.Batch).Decode(batch(record("b"), r)), p1.DetailRequired)
		})
	}
	refused(t, new(events.Publish).Decode([]byte("\x0a\x00")), p1.DetailRequired) // no event
	for name, change := range map[string]func(*events.Record){
		"task_id alone": func(r *events.Record) { r.MsgID, r.TaskID = nil, []byte("t") },
		"rpc_id alone":  func(r *events.Record) { r.MsgID, r.RPCID = nil, []byte("r") },
		"empty body":    func(r *events.Record) { r.Body = nil },
	} {
		r := record("a")
		change(&r)
		if err := new(events.Publish).Decode(publish(r)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEvents0005InvalidSeverity(t *testing.T) {
	for text, want := range map[string]events.Severity{
		"debug": events.Debug, "info": events.Info, "warn": events.Warn, "error": events.Error,
		" Error\t": events.Error, "INFO": events.Info,
	} {
		if got, ok := events.ParseSeverity([]byte(text)); !ok || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"fatal", "warning", "inf", "info,", "information", "ınfo", " ", "0"} {
		r := record("a")
		r.Severity = []byte(text)
		refused(t, new(events.Publish).Decode(publish(r)), events.DetailSeverity)
	}
}

func TestFieldsAreBounded(t *testing.T) {
	for name, field := range map[string]func(*events.Record) *[]byte{
		"event_id":   func(r *events.Record) *[]byte { return &r.EventID },
		"event_type": func(r *events.Record) *[]byte { return &r.EventType },
	} {
		r := record("a")
		*field(&r) = bytes.Repeat([]byte("x"), 256)
		if err := new(events.Publish).Decode(publish(r)); err != nil {
			t.Errorf("%s of 256 octets: %v", name, err)
		}
		*field(&r) = bytes.Repeat([]byte("x"), 257)
		refused(t, new(events.Publish).Decode(publish(r)), events.DetailSize)
		*field(&r) = []byte("\xff")
		refused(t, new(events.Publish).Decode(publish(r)), p1.DetailUTF8)
		refused(t, r.Validate(), p1.DetailUTF8)
	}
}

func TestBatchesAreCountedToTheLimit(t *testing.T) {
	list := make([]events.Record, events.MaxBatch+1)
	for i := range list {
		list[i] = record("a")
	}
	if err := new(events.Batch).Decode(batch(list[1:]...)); err != nil {
		t.Errorf("%d records: %v", events.MaxBatch, err)
	}
	refused(t, new(events.Batch).Decode(batch(list...)), p1.DetailCount)
}

func TestRS06ElementBombsAreRefusedBeforeDecoding(t *testing.T) {
	const octets = 8 << 20
	body := bytes.Repeat([]byte{0x0a, 0}, octets/2)
	bomb := p1.AppendHeader(nil, events.TypeBatch, len(body))
	bomb = append(bomb, body...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	refused(t, new(events.Batch).Decode(bomb), p1.DetailCount)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<10 {
		t.Errorf("%d octets allocated for a bomb, want next to none", grown)
	}
	t.Logf("refused in %v", took)

	// Unknown fields of a record are kept only as far as a record may have fields.
	flood := bytes.Repeat([]byte{0x50, 1}, 1<<20)
	refused(t, new(events.Publish).Decode(wrap(append([]byte("\x0a\x01i\x12\x01t\x1a\x04info\x20\x07\x32\x01x"), flood...))), p1.DetailCount)
}

func TestFilters(t *testing.T) {
	r := record("a")
	r.EventType, r.Severity, r.TaskID, r.RPCID = []byte("a.b:c"), []byte("Warn"), []byte{0xab}, []byte("rpc")
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	for filter, want := range map[string]bool{
		"":                         true,
		"type:a.b:c":               true,
		"type:a.b":                 false,
		"type:A.b:c":               false,
		"type:x,type:a.b:c":        true,
		"type:a.b:c,severity:warn": true,
		"severity:WARN":            true,
		"severity:error":           false,
		"severity:info,severity:error,severity:warn": true,
		"task:ab":                  true,
		"task:AB":                  true,
		"task:ab,rpc:00":           false,
		"task:ab,rpc:727063":       true,
		"rpc:7270":                 false,
		"type:x,severity:warn":     false,
		"type:*":                   true,
		"type:>":                   false,
		"type:a.*":                 true,
		"type:a.b:c*":              true,
		"type:a.b:c**":             false,
		"type:a.b:cd*":             false,
		"type:A.*":                 false,
		"type:*.b:c":               false,
		"type:x,type:a*":           true,
		"severity:debug+":          true,
		"severity:warn+":           true,
		"severity: WARN+ ":         true,
		"severity:error+":          false,
		"type:a*,severity:error+":  false,
		"type:a.b:c ":              false,
		"type: a.b:c":              false,
		"type:$JS.API.x,type:$SYS": false,
		"type:\r\n\x00":            false,
	} {
		f, err := events.ParseFilter(filter)
		if err != nil {
			t.Errorf("%q: %v", filter, err)
			continue
		}
		if got := f.Match(&r); got != want {
			t.Errorf("%q matches %v, want %v", filter, got, want)
		}
	}
	for _, filter := range []string{
		",", "type", "type:", ":x", "types:x", "TYPE:x", " type:x", "type:x, severity:info", "type:x,", "severity:fatal", "severity:", "severity:+", "severity:warn++", "severity:+warn",
		"task:xyz", "task:0", "rpc:g0", "*", ">", "body:x", "type:x,,type:y",
		"type:" + strings.Repeat("x", events.MaxFilter-4), "type:x" + strings.Repeat(",type:x", events.MaxTerms),
	} {
		_, err := events.ParseFilter(filter)
		refused(t, err, events.DetailFilter)
	}
	for _, filter := range []string{
		"type:" + strings.Repeat("x", events.MaxFilter-5), "type:x" + strings.Repeat(",type:x", events.MaxTerms-1),
	} {
		if _, err := events.ParseFilter(filter); err != nil {
			t.Errorf("%d octets: %v", len(filter), err)
		}
	}
}

func BenchmarkDecodePublish(b *testing.B) {
	payload := publish(record("an event_id of the usual length"))
	var m events.Publish
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Decode(payload); err != nil {
			b.Fatal(err)
		}
	}
}
