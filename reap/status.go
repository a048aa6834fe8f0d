package reap

import (
	"context"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// null is the JSON null of fields that a record does not have.
var null = jsontext.Value("null")

// Brief is what every answer about a job begins with; see [Job].
type Brief struct {
	RunID      string         `json:"run_id"`
	Kind       jsontext.Value `json:"kind"`
	Label      jsontext.Value `json:"label"`
	Status     string         `json:"status"`
	Terminal   bool           `json:"terminal"`
	Outcome    *string        `json:"outcome"`
	ReasonCode *string        `json:"reason_code"`
}

// Job is what one observation says of one job. Fields of type jsontext.Value
// are as recorded, whatever JSON that is, and null if the record has none.
// Pointers and jsontext null mean "not known" or "not yet".
type Job struct {
	Brief
	SpawnState          jsontext.Value `json:"spawn_state"`
	PossiblyOrphaned    bool           `json:"possibly_orphaned"`
	TerminalSource      jsontext.Value `json:"terminal_source"`
	TerminalEvidence    jsontext.Value `json:"terminal_evidence"`
	Alive               bool           `json:"alive"`
	PIDIdentity         *string        `json:"pid_identity"`
	LivenessConclusion  string         `json:"liveness_conclusion"`
	PID                 jsontext.Value `json:"pid"`
	SubmittedAt         jsontext.Value `json:"submitted_at"`
	FinishedAt          jsontext.Value `json:"finished_at"`
	FinishedAtPrecision jsontext.Value `json:"finished_at_precision"`
	NotifyDelivery      jsontext.Value `json:"notify_delivery"`

	MCPConfig                 jsontext.Value `json:"mcp_config"`
	MCPConfigSource           jsontext.Value `json:"mcp_config_source"`
	MCPConfigReason           jsontext.Value `json:"mcp_config_reason"`
	DeclaredMCPServers        jsontext.Value `json:"declared_mcp_servers"`
	MCPConfigServers          jsontext.Value `json:"mcp_config_servers"`
	PersistenceDegradedReason jsontext.Value `json:"persistence_degraded_reason"`
	Run                       jsontext.Value `json:"run"`
	// LogTail is always null: log bodies are given by Output only.
	LogTail     jsontext.Value `json:"log_tail"`
	Known       bool           `json:"known"`
	RecordState string         `json:"record_state"`
	Server      Server         `json:"server"`

	// Finding is the exact finding of the probe behind LivenessConclusion.
	Finding string `json:"finding"`
	// ExitCode and Signal are the real exit status, where a supervisor saw it.
	ExitCode jsontext.Value `json:"exit_code"`
	Signal   jsontext.Value `json:"signal"`
	// LateReport is an end that was reported after another was on record.
	LateReport jsontext.Value `json:"late_report"`
	// RecordError says what is wrong with a record that is not usable.
	RecordError *string `json:"record_error"`
	// Refused says why a transition that was due could not be written, as a
	// sidecar.Refusal; the next observation tries again. With an end it is
	// "written_unsynced": the record is published, and a loss of power may
	// undo that.
	Refused *string `json:"refused"`
	// Warnings are for whoever decides what to do next: WarnRecovery or
	// WarnDamaged. Never null.
	Warnings []string `json:"warnings"`

	// Liveness is the whole verdict with its receipt. It is the zero value
	// if the record was not usable.
	Liveness jobprobe.Liveness `json:"-"`
}

// Server names the program that answered.
type Server struct {
	Version string `json:"version"`
	Module  string `json:"module"`
}

// Version is the version that replies name. The program sets it at start.
var Version = "devel"

// Status observes one job, reaps it if its process is conclusively gone, and
// returns what is then on record. An unknown id is an answer (Known false,
// RecordState "absent"); the only error is sidecar.ErrRunID, for an id that
// cannot name a job.
func (o Observer) Status(ctx context.Context, id string) (Job, error) {
	l, err := o.observe(ctx, id)
	if err != nil {
		return Job{}, err
	}
	o.look(&l)
	return o.job(&l), nil
}

func (o Observer) job(l *look) Job {
	rec, f := l.fields(), derive(l)
	manifest, degraded := o.manifest(l)
	job := Job{
		Brief:               l.brief(&f),
		SpawnState:          field(rec, "spawn_state"),
		PossiblyOrphaned:    f.orphaned,
		TerminalSource:      field(rec, "terminal_source"),
		TerminalEvidence:    field(rec, "terminal_evidence"),
		Alive:               l.live.Alive && l.probed,
		PIDIdentity:         orNull("unusable_pid"),
		LivenessConclusion:  l.live.Conclusion.String(),
		PID:                 field(rec, "pid"),
		SubmittedAt:         field(rec, "submitted_at"),
		FinishedAt:          field(rec, "finished_at"),
		FinishedAtPrecision: field(rec, "finished_at_precision"),
		NotifyDelivery:      delivery(rec, f.terminal),

		MCPConfig:                 field(rec, "mcp_config"),
		MCPConfigSource:           field(rec, "mcp_config_source"),
		MCPConfigReason:           field(rec, "mcp_config_reason"),
		DeclaredMCPServers:        declaredServers(rec),
		MCPConfigServers:          field(rec, "mcp_config_servers"),
		PersistenceDegradedReason: degraded,
		Run:                       manifest,
		LogTail:                   null,
		Known:                     l.reading.State == sidecar.OK,
		RecordState:               l.reading.State.String(),
		Server:                    Server{Version: Version, Module: "github.com/jobprobe/jobprobe"},

		Finding:    l.live.Finding.String(),
		ExitCode:   field(rec, "exit_code"),
		Signal:     field(rec, "signal"),
		LateReport: field(rec, "late_report"),
		Refused:    refusal(l.refused),
		Warnings:   warnings(&f),
		Liveness:   l.live,
	}
	if sidecar.HistoryOf(rec).Damaged > 0 {
		job.Warnings = append(job.Warnings, WarnDamaged)
	}
	if l.probed {
		job.PIDIdentity = orNull(identityWord(l.live.Finding))
	}
	if l.reading.Err != nil && l.reading.State != sidecar.Absent {
		job.RecordError = orNull(l.reading.Err.Error())
	}
	return job
}

// brief is the beginning of an answer.
func (l *look) brief(f *fate) Brief {
	rec := l.fields()
	return Brief{
		RunID: l.id, Kind: field(rec, "kind"), Label: field(rec, "label"),
		Status: f.status, Terminal: f.terminal, Outcome: orNull(f.outcome), ReasonCode: orNull(f.reason),
	}
}

// fields is the record, or one without any if there is none.
func (l *look) fields() *sidecar.Record {
	if rec := l.record(); rec != nil {
		return rec
	}
	return sidecar.NewRecord()
}

// field returns a recorded value in the encoding of records, null if there
// is none.
func field(rec *sidecar.Record, name string) jsontext.Value {
	if raw, ok := rec.Raw(name); ok {
		return raw
	}
	return null
}

// declaredServers falls back to the field's older name.
func declaredServers(rec *sidecar.Record) jsontext.Value {
	if raw, ok := rec.Raw("declared_mcp_servers"); ok {
		return raw
	}
	return field(rec, "mcp_config_servers")
}

// delivery is null only while the job can still run; an end without a
// recorded delivery was not delivered.
func delivery(rec *sidecar.Record, terminal bool) jsontext.Value {
	switch {
	case !terminal:
		return null
	case rec.Null("notify_delivery"):
		return jsontext.Value(`{"attempted":false}`)
	}
	return field(rec, "notify_delivery")
}

// manifest returns what the run wrote of itself, and the reason it gives for
// its persistence being degraded.
func (o Observer) manifest(l *look) (run, degraded jsontext.Value) {
	rec := o.runObject(l.id, "run.json")
	if rec == nil || l.record() == nil {
		return null, null
	}
	if reason, _ := rec.Text("persistence_degraded_reason"); strings.TrimSpace(reason) != "" {
		degraded = field(rec, "persistence_degraded_reason")
	} else {
		degraded = null
	}
	return rec.Append(nil), degraded
}

// refusal names why a transition was not written.
func refusal(err error) *string {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*sidecar.RefusedError](err); ok {
		return orNull(refused.Reason.String())
	}
	return orNull(err.Error())
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
