package daemon

import (
	"context"
	"errors"
	"strings"

	"github.com/slimwire/swp/daemon/internal/storage"
)

// makeDesk makes the desk of operators, with the actions on the daemon itself. All other parts are there.
func (d *daemon) makeDesk() (err error) {
	d.desk, err = d.state.NewDesk(storage.DeskOptions{
		Config: d.config, Log: d.log, Record: d.trail.Operate,
		Actions: []storage.Action{
			{Name: "reload", Does: "read the configuration and its files again", Do: func(ctx context.Context, _ storage.Target) (string, error) {
				result, err := d.reloader.ask(ctx)
				if err != nil {
					return "", err
				}
				return result.text()
			}},
			{Name: "drain", Does: "stop swpd: accept nothing new, and end when the work in progress has ended", Final: true, Do: d.drain},
			storage.EndSession(d.parts.Sessions),
		},
	})
	d.add(d.desk)
	return err
}

// drain begins a stop.
func (d *daemon) drain(context.Context, storage.Target) (string, error) {
	select {
	case d.leave <- struct{}{}:
		return "swpd stops within " + d.opts.Drain.String(), nil
	default:
		return "", errors.New("swpd is stopping")
	}
}

// text is the result in a sentence; the error has the problems.
func (r *Reloaded) text() (string, error) {
	text := "nothing is new"
	if len(r.Changed) > 0 {
		text = "in force: " + strings.Join(r.Changed, ", ")
	}
	if len(r.Later) > 0 {
		text += "; at the next start: " + strings.Join(r.Later, ", ")
	}
	if len(r.Problems) > 0 {
		return "", errors.New(text + "; not in force: " + strings.Join(r.Problems, "; "))
	}
	return text, nil
}
