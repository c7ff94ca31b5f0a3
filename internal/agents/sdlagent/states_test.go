package sdlagent

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestTheFirstStateWaitsForTheAnswerToTheRequest(t *testing.T) {
	for name, end := range map[string]func(answered chan struct{}, stop func()){
		"answered": func(answered chan struct{}, _ func()) { close(answered) },
		"closed":   func(_ chan struct{}, stop func()) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := 0
				a := &Agent{opts: Options{Partner: func(context.Context, string, string, []byte) (bool, error) {
					told++
					return true, nil
				}}}
				a.ctx, a.cancel = context.WithCancel(t.Context())
				answered := make(chan struct{})
				s := &states{agent: a, from: &origin{answered: answered}, work: new(work)}
				go s.deliver("1", nil)
				synctest.Wait()
				if told != 0 {
					t.Error("told before the answer")
				}
				end(answered, a.cancel)
				synctest.Wait()
				if want := map[string]int{"answered": 1}[name]; told != want {
					t.Errorf("told %d times, want %d", told, want)
				}
				s.from = new(origin) // after a restart
				if s.deliver("2", nil); name == "answered" && told != 2 {
					t.Errorf("told %d times, want 2", told)
				}
			})
		})
	}
}
