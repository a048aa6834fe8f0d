package spawn

import (
	"os"
	"path/filepath"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

// preparing is the record of a job that has no process yet. The fields and
// their order are the peer's; what is ours follows.
func preparing(store sidecar.Store, id string, req *Request, spawner jobprobe.Identity, now time.Time) *sidecar.Record {
	cwd := sidecar.Null()
	if dir, err := os.Getwd(); err == nil {
		cwd = sidecar.Text(dir)
	}
	argv := req.Argv
	if req.HideArgv {
		argv = nil
	}
	notify := ""
	if len(req.NotifyCommand) > 0 {
		notify = string(sidecar.Texts(req.NotifyCommand))
	}
	rec := sidecar.NewRecord(
		sidecar.Field{Name: "run_id", Value: sidecar.Text(id)},
		sidecar.Field{Name: "pid", Value: sidecar.Null()},
		sidecar.Field{Name: "pid_create_time", Value: sidecar.Null()},
		sidecar.Field{Name: "pgid", Value: sidecar.Null()},
		sidecar.Field{Name: "kind", Value: sidecar.Text("command")},
		sidecar.Field{Name: "argv", Value: sidecar.Texts(argv)},
		sidecar.Field{Name: "cwd", Value: sidecar.Text(req.Dir)},
		sidecar.Field{Name: "submit_cwd", Value: cwd},
		sidecar.Field{Name: "label", Value: textOrNull(req.Label)},
		sidecar.Field{Name: "notify_command", Value: textOrNull(notify)},
		sidecar.Field{Name: "notify_target", Value: textOrNull(req.NotifyTarget)},
		sidecar.Field{Name: "notify_sender", Value: textOrNull(req.NotifySender)},
		sidecar.Field{Name: "submitted_at", Value: sidecar.Text(sidecar.FormatTime(now))},
		sidecar.Field{Name: "finished_at", Value: sidecar.Null()},
		sidecar.Field{Name: "status", Value: sidecar.Text("running")},
		sidecar.Field{Name: "spawn_state", Value: sidecar.Text("preparing")},
		sidecar.Field{Name: "log", Value: sidecar.Text(filepath.Join(store.Dir, id, reap.ConsoleName))},
		sidecar.Field{Name: "spawner", Value: identityValue(spawner)},
		sidecar.Field{Name: "lifecycle", Value: sidecar.NewHistory()},
	)
	if req.Claim != "" {
		rec.Set("claim", sidecar.Text(req.Claim))
	}
	if req.Parent != "" {
		rec.Set("parent_run_id", sidecar.Text(req.Parent))
	}
	if req.LogMax != 0 {
		rec.Set("log_max", sidecar.Int(req.LogMax))
	}
	if req.slot != nil {
		rec.Set("spawn_index", sidecar.Int(int64(req.slot.SpawnIndex)))
		rec.Set("tool_call_id", sidecar.Text(req.slot.ToolCallID))
	}
	return rec
}

func textOrNull(s string) sidecar.Value {
	if s == "" {
		return sidecar.Null()
	}
	return sidecar.Text(s)
}

func identityValue(id jobprobe.Identity) sidecar.Value {
	text, err := id.MarshalJSON()
	if err != nil {
		return sidecar.Null()
	}
	return text
}
