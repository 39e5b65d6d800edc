package certify

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// DefaultConfig is the configuration file read when none is named.
const DefaultConfig = "wopcert.yaml"

// Config is the configuration file. Every member has a flag of the same
// meaning, which wins. Keys are named by the environment variable that holds
// them and never stand in the file.
type Config struct {
	Host                 string   `yaml:"host"`
	APIKeyEnv            string   `yaml:"api_key_env"`
	OtherTenantKeyEnv    string   `yaml:"other_tenant_key_env"`
	ReadOnlyKeyEnv       string   `yaml:"read_only_key_env"`
	ProductionKeyEnv     string   `yaml:"production_key_env"`
	ApproverKeyEnv       string   `yaml:"approver_key_env"`
	SecondApproverKeyEnv string   `yaml:"second_approver_key_env"`
	OverrideKeyEnv       string   `yaml:"override_key_env"`
	ApproverID           string   `yaml:"approver_id"`
	ApproverGroup        string   `yaml:"approver_group"`
	ApproverRole         string   `yaml:"approver_role"`
	OverrideRole         string   `yaml:"override_role"`
	ReceiverListen       string   `yaml:"receiver_listen"`
	ReceiverURL          string   `yaml:"receiver_url"`
	ReceiverCert         string   `yaml:"receiver_cert"`
	ReceiverKey          string   `yaml:"receiver_key"`
	ReceiverTrusted      bool     `yaml:"receiver_trusted"`
	SigningKey           string   `yaml:"signing_key"`
	KeyID                string   `yaml:"key_id"`
	HostBuild            string   `yaml:"host_build"`
	Out                  string   `yaml:"out"`
	Scenarios            []string `yaml:"scenarios"`
	Requirements         []string `yaml:"requirements"`
	Profiles             []string `yaml:"profiles"`
	OptOuts              []string `yaml:"opt_outs"`
	Parallel             int      `yaml:"parallel"`
	Timeout              string   `yaml:"timeout"`
	KillCmd              string   `yaml:"kill_cmd"`
	RestartCmd           string   `yaml:"restart_cmd"`
	RecoveryBounds       string   `yaml:"recovery_bounds"`
	Relaxations          string   `yaml:"relaxations"`
	Corpus               string   `yaml:"corpus"`
}

// ConfigError is a configuration file that cannot be used.
type ConfigError struct{ Text, Hint string }

func (e *ConfigError) Error() string { return e.Text }

// maxConfig bounds the configuration file, in bytes.
const maxConfig = 1 << 20

// ReadConfig reads a configuration file. The default file may be missing, a
// named one may not.
func ReadConfig(name string) (Config, error) {
	var c Config
	path := name
	if path == "" {
		path = DefaultConfig
	}
	f, err := os.Open(path)
	if name == "" && errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, &ConfigError{fmt.Sprintf("configuration %s cannot be read: %v", path, errors.Unwrap(err)), ""}
	}
	defer f.Close()
	d := yaml.NewDecoder(io.LimitReader(f, maxConfig))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		hint := "the members are host, api_key_env, other_tenant_key_env, read_only_key_env, production_key_env, approver_key_env, second_approver_key_env, override_key_env, approver_id, approver_group, approver_role, override_role, receiver_listen, receiver_url, receiver_cert, receiver_key, receiver_trusted, signing_key, key_id, host_build, out, scenarios, requirements, profiles, opt_outs, parallel, timeout, kill_cmd, restart_cmd, recovery_bounds, relaxations, corpus"
		if strings.Contains(err.Error(), "_key not found") {
			hint = "a key does not stand in the file: name the environment variable that holds it, as in api_key_env: MY_KEY"
		}
		text := strings.ReplaceAll(err.Error(), " in type certify.Config", "")
		return c, &ConfigError{fmt.Sprintf("configuration %s: %s", path, text), hint}
	}
	if c.Timeout != "" {
		if d, err := time.ParseDuration(c.Timeout); err != nil || d <= 0 {
			return c, &ConfigError{fmt.Sprintf("configuration %s: timeout %q is no duration", path, c.Timeout), "write it as 90s or 2m"}
		}
	}
	return c, nil
}
