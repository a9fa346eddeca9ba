package allinone

import (
	"os"
	"path/filepath"
	"time"

	"flashsale.internal/pkg/settings"
)

// Config holds the settings of the process. The services inside read theirs from the same environment.
type Config struct {
	settings.App
	// Listener for the pages and the API.
	HTTPAddr string `env:"HTTP_ADDR" envDefault:"127.0.0.1:8080"`
	// Listener for `/livez`, `/readyz` and `/metrics`.
	AdminAddr string `env:"ADMIN_ADDR" envDefault:"127.0.0.1:9080"`
	// Time for the process to finish its work at the end.
	DrainTimeout time.Duration `env:"DRAIN_TIMEOUT" envDefault:"10s"`
	// Folder of the tables; without it a temporary one, which is deleted at the end.
	DataDir string `env:"DATA_DIR"`
	// Publishes two sales at the start: one opens some seconds later, the other is open at once.
	Demo bool `env:"DEMO" envDefault:"true"`
}

// Validate returns an error for the first wrong setting.
func (c Config) Validate() error {
	if c.Production() {
		return settings.Wrong("APP_ENV",
			"must not be production for allinone: its Redis and its messages live in memory")
	}
	return settings.HTTP{Addr: c.HTTPAddr, AdminAddr: c.AdminAddr, DrainTimeout: c.DrainTimeout}.Validate(false)
}

// dataDir creates the folder for the tables. The returned func removes it if it is a temporary one.
func (c Config) dataDir() (dir string, remove func() error, err error) {
	if c.DataDir == "" {
		dir, err = os.MkdirTemp("", "flashsale-")
		return dir, func() error { return os.RemoveAll(dir) }, err
	}
	if dir, err = filepath.Abs(c.DataDir); err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", nil, settings.Wrong("DATA_DIR", "cannot be used: %v", err)
	}
	return dir, func() error { return nil }, nil
}
