package rig

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flashsale.internal/pkg/porttest"
)

// Set changes a setting of the process. It applies at the next start.
func (p *Process) Set(name, value string) { p.env = append(p.env, name+"="+value) }

// FromFile gives a setting of the process in a file. It applies at the next start.
func (p *Process) FromFile(name, path string) {
	p.env = slices.DeleteFunc(p.env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	p.Set(name+"_FILE", path)
}

// Setting returns the value with which the process is started next.
func (p *Process) Setting(name string) (value string) {
	for _, kv := range p.env { // the last one counts
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// Replace changes the program of the process to that of this release in another folder, and removes what that no longer
// reads. It applies at the next start, and to commands.
func (p *Process) Replace(programs string) {
	p.binary = filepath.Join(programs, filepath.Base(p.binary))
	p.Set("PAYMENTS_SANDBOX", "")
}

// Twin prepares another process of a service with the same settings, but its own name and ports. It ends with the
// test.
func (p *Process) Twin(t testing.TB, name string) *Process {
	t.Helper()
	public, admin := porttest.Free(t), porttest.Free(t)
	twin := &Process{
		Name: name, URL: "http://" + public, Admin: "http://" + admin,
		binary: p.binary, env: append([]string(nil), p.env...), log: filepath.Join(filepath.Dir(p.log), name+".log"),
	}
	twin.Set("HTTP_ADDR", public)
	twin.Set("ADMIN_ADDR", admin)
	if p.Setting("INTERNAL_ADDR") != "" {
		twin.Set("INTERNAL_ADDR", porttest.Free(t))
	}
	t.Cleanup(func() { twin.Stop(t) })
	return twin
}
