package a2abinding

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/profiles/a2a"
)

func TestOperationsAreFoundByNameAndKind(t *testing.T) {
	if len(Operations()) != 11 || len(Kinds()) != 11 {
		t.Fatalf("%d operations, want 11", len(Operations()))
	}
	for _, o := range Operations() {
		if got, ok := OfKind("a2a/1.0/" + o.Name); !ok || got != o {
			t.Errorf("%s: %+v", o.Name, got)
		}
	}
	for _, kind := range []string{"", "a2a/1.0/", "a2a/1.0/gettask", "a2a/1.1/GetTask", "GetTask", "a2a/1.0/GetTask/"} {
		if _, ok := OfKind(kind); ok {
			t.Errorf("%q is an operation", kind)
		}
	}
}

func TestFailuresKeepTheirOctets(t *testing.T) {
	for _, octets := range []string{
		`{"code":-32001,"message":"no such task","data":[{"@type":"t","b":1, "a":9007199254740993}]}`,
		`{"code":-32603,"message":"\u003c"}`,
		`{"code":7,"message":"","data":{"x":1.0}}`,
	} {
		f, err := Parse([]byte(octets))
		if err != nil {
			t.Fatal(err)
		}
		passed, got := OfResult(&a2a.Result{Output: f.Result().Output, Reason: f.Result().Reason})
		if diff := cmp.Diff(octets, string(got)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(f, passed); diff != "" {
			t.Error(diff)
		}
		if f.Result().Reason == "" && f.Code != 7 {
			t.Errorf("%s: a Result without a reason", octets)
		}
	}
	for _, octets := range []string{``, `{}`, `[]`, `{"code":"1"}`, `null`, `{"code":1.5}`} {
		if f, err := Parse([]byte(octets)); err == nil {
			t.Errorf("%s is %+v", octets, f)
		}
	}
}

func TestStatusOfEveryCode(t *testing.T) {
	for code, want := range map[int]int{
		CodeParse: 400, CodeInvalidRequest: 400, CodeUnknownMethod: 501, CodeInvalidParams: 400, CodeInternal: 500,
		CodeTaskNotFound: 404, CodeNotCancelable: 400, CodeNoPush: 400, CodeUnsupported: 400, CodeContentType: 400,
		CodeInvalidResponse: 500, CodeNoExtendedCard: 400, CodeNeedsExtension: 400, CodeVersion: 400, 1: 500,
	} {
		if got := Fail(code, "m").Status(); got != want {
			t.Errorf("%d: status %d, want %d", code, got, want)
		}
	}
	for reason, want := range map[Reason]int{NoRoute: 502, Denied: 403, LinkLost: 503, Deadline: 504, TooLarge: 413} {
		if got := Own(reason, "m").Status(); got != want {
			t.Errorf("%s: status %d, want %d", reason, got, want)
		}
	}
	// An agent cannot claim a failure of ours under another domain.
	f := &Failure{Code: CodeInternal, Data: errorInfo("DENIED", "example.com", "")}
	for reason, want := range map[string]string{
		"UNAUTHENTICATED": `{"error":{"code":401,"status":"UNAUTHENTICATED",`, "UNAUTHORIZED": `{"error":{"code":403,"status":"PERMISSION_DENIED",`,
		"PERMISSION_DENIED": `{"error":{"code":403,"status":"PERMISSION_DENIED",`, "OTHER": `{"error":{"code":500,"status":"INTERNAL",`,
	} {
		for _, code := range []int{-31401, CodeInternal} {
			refused := &Failure{Code: code, Message: "m", Data: errorInfo(reason, DomainA2A, "")}
			if got := string(refused.AppendREST(nil)); !strings.HasPrefix(got, want) {
				t.Errorf("%s with %d: %s", reason, code, got)
			}
		}
	}
	if got := f.Status(); got != 500 {
		t.Errorf("status %d", got)
	}
}

func TestRESTKeepsCodeAndDetails(t *testing.T) {
	for _, k := range codes {
		f := Fail(k.code, "why <not>")
		body := f.AppendREST(nil)
		if !json.Valid(body) {
			t.Fatalf("%s", body)
		}
		got, err := ParseREST(body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(f, got); diff != "" {
			t.Errorf("%d: %s", k.code, diff)
		}
	}
	details := `[{"@type":"x","n":9007199254740993, "u":1.0},{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}]`
	f, err := ParseREST([]byte(`{"error":{"code":404,"status":"NOT_FOUND","message":"m","details":` + details + `}}`))
	if err != nil || f.Code != CodeTaskNotFound || string(f.Data) != details {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := ParseREST([]byte(`{"error":{"message":"m"}}`)); err != nil || f.Code != CodeInternal || f.Data != nil {
		t.Errorf("%+v, %v", f, err)
	}
	for _, body := range []string{``, `{}`, `<html>`, `{"error":"x"}`} {
		if f, err := ParseREST([]byte(body)); err == nil {
			t.Errorf("%s is %+v", body, f)
		}
	}
}

func TestResultWithoutAnErrorIsOurs(t *testing.T) {
	for reason, want := range map[string]int{
		a2a.ReasonUnsupported: 502, a2a.ReasonHops: 502, a2a.ReasonDenied: 403, a2a.ReasonChain: 403, a2a.ReasonDeadline: 504,
		a2a.ReasonSize: 413, a2a.ReasonEvents: 413, a2a.ReasonMalformed + ": \"x\"": 400, "the worker did not come back": 503, "": 503,
	} {
		f, octets := OfResult(&a2a.Result{Reason: reason})
		if f.Status() != want || !json.Valid(octets) || f.Message != reason {
			t.Errorf("%q: status %d, %s", reason, f.Status(), octets)
		}
		signed, octets := OfResult(&a2a.Result{Reason: reason, Endpoint: `spiffe://a/"b`})
		if signed.Status() != want || !json.Valid(octets) || !strings.Contains(string(octets), `,"metadata":{"endpoint":"spiffe://a/\"b"}}]`) {
			t.Errorf("%q of an endpoint: status %d, %s", reason, signed.Status(), octets)
		}
	}
}
