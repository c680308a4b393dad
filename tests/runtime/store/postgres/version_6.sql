CREATE SCHEMA sidecar;
CREATE TABLE sidecar.migrations (version int PRIMARY KEY, made_at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE sidecar.sessions (
  owner text NOT NULL DEFAULT current_user,
  id text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  modified_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  meta text,
  n_records bigint NOT NULL DEFAULT 0,
  n_bytes bigint NOT NULL DEFAULT 0,
  lease_token bigint NOT NULL DEFAULT 0,
  lease_holder text NOT NULL DEFAULT '',
  leased_until timestamptz NOT NULL DEFAULT '-infinity',
  followed_until timestamptz NOT NULL DEFAULT '-infinity',
  PRIMARY KEY (owner, id)
);
CREATE INDEX sessions_newest ON sidecar.sessions (owner, modified_at DESC);

CREATE TABLE sidecar.nodes (
  owner text NOT NULL DEFAULT current_user,
  id text NOT NULL,
  body text NOT NULL,
  words tsvector NOT NULL,
  PRIMARY KEY (owner, id)
);
CREATE INDEX nodes_words ON sidecar.nodes USING gin (words);

CREATE TABLE sidecar.records (
  owner text NOT NULL DEFAULT current_user,
  session text NOT NULL,
  n bigint NOT NULL,
  node text,
  body text NOT NULL,
  PRIMARY KEY (owner, session, n),
  FOREIGN KEY (owner, session) REFERENCES sidecar.sessions ON DELETE CASCADE
);
CREATE INDEX records_of_node ON sidecar.records (owner, node) WHERE node IS NOT NULL;

CREATE SEQUENCE sidecar.lease_tokens;

ALTER TABLE sidecar.sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE sidecar.sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON sidecar.sessions
  USING (owner = current_user::text) WITH CHECK (owner = current_user::text);
GRANT SELECT, INSERT, UPDATE, DELETE ON sidecar.sessions TO PUBLIC;

ALTER TABLE sidecar.nodes ENABLE ROW LEVEL SECURITY;
ALTER TABLE sidecar.nodes FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON sidecar.nodes
  USING (owner = current_user::text) WITH CHECK (owner = current_user::text);
GRANT SELECT, INSERT, UPDATE, DELETE ON sidecar.nodes TO PUBLIC;

ALTER TABLE sidecar.records ENABLE ROW LEVEL SECURITY;
ALTER TABLE sidecar.records FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON sidecar.records
  USING (owner = current_user::text) WITH CHECK (owner = current_user::text);
GRANT SELECT, INSERT, UPDATE, DELETE ON sidecar.records TO PUBLIC;

GRANT USAGE ON SCHEMA sidecar TO PUBLIC;
GRANT USAGE ON SEQUENCE sidecar.lease_tokens TO PUBLIC;
GRANT SELECT ON sidecar.migrations TO PUBLIC;
INSERT INTO sidecar.migrations (version) VALUES (1);
CREATE UNLOGGED TABLE sidecar.tunnels (
  owner text NOT NULL DEFAULT current_user,
  id text NOT NULL,
  host text NOT NULL,
  guest text NOT NULL,
  guest_name text NOT NULL,
  wire text NOT NULL,
  host_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  guest_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (owner, id)
);
CREATE UNLOGGED TABLE sidecar.chunks (
  owner text NOT NULL DEFAULT current_user,
  tunnel text NOT NULL,
  to_host boolean NOT NULL,
  n bigint NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (owner, tunnel, to_host, n),
  FOREIGN KEY (owner, tunnel) REFERENCES sidecar.tunnels ON DELETE CASCADE
);

ALTER TABLE sidecar.tunnels ENABLE ROW LEVEL SECURITY;
ALTER TABLE sidecar.tunnels FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON sidecar.tunnels
  USING (owner = current_user::text) WITH CHECK (owner = current_user::text);
GRANT SELECT, INSERT, UPDATE, DELETE ON sidecar.tunnels TO PUBLIC;

ALTER TABLE sidecar.chunks ENABLE ROW LEVEL SECURITY;
ALTER TABLE sidecar.chunks FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON sidecar.chunks
  USING (owner = current_user::text) WITH CHECK (owner = current_user::text);
GRANT SELECT, INSERT, UPDATE, DELETE ON sidecar.chunks TO PUBLIC;
INSERT INTO sidecar.migrations (version) VALUES (2);
ALTER TABLE sidecar.records ADD COLUMN content text;
CREATE INDEX records_of_content ON sidecar.records (owner, content) WHERE content IS NOT NULL;
CREATE TABLE sidecar.contents (
  owner text NOT NULL DEFAULT current_user,
  id text NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (owner, id)
);

ALTER TABLE sidecar.contents ENABLE ROW LEVEL SECURITY;
ALTER TABLE sidecar.contents FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON sidecar.contents
  USING (owner = current_user::text) WITH CHECK (owner = current_user::text);
GRANT SELECT, INSERT, UPDATE, DELETE ON sidecar.contents TO PUBLIC;
INSERT INTO sidecar.migrations (version) VALUES (3);
CREATE FUNCTION sidecar.me() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT current_user::text';

ALTER POLICY own_rows ON sidecar.sessions USING (owner = sidecar.me()) WITH CHECK (owner = sidecar.me());

ALTER POLICY own_rows ON sidecar.nodes USING (owner = sidecar.me()) WITH CHECK (owner = sidecar.me());

ALTER POLICY own_rows ON sidecar.records USING (owner = sidecar.me()) WITH CHECK (owner = sidecar.me());

ALTER POLICY own_rows ON sidecar.tunnels USING (owner = sidecar.me()) WITH CHECK (owner = sidecar.me());

ALTER POLICY own_rows ON sidecar.chunks USING (owner = sidecar.me()) WITH CHECK (owner = sidecar.me());

ALTER POLICY own_rows ON sidecar.contents USING (owner = sidecar.me()) WITH CHECK (owner = sidecar.me());
INSERT INTO sidecar.migrations (version) VALUES (4);
ALTER TABLE sidecar.sessions
  ADD COLUMN updated_ms bigint
    GENERATED ALWAYS AS (substring(meta FROM '"updated_at":(-?\d{1,18})')::bigint) STORED,
  ADD COLUMN cwd text
    GENERATED ALWAYS AS (left(substring(meta FROM '"cwd":("(?:[^"\\]|\\.)*")'), 500)) STORED,
  ADD COLUMN title text GENERATED ALWAYS AS (substring(meta FROM '"title":("(?:[^"\\]|\\.)*")')) STORED,
  ADD COLUMN archived boolean
    GENERATED ALWAYS AS (coalesce(substring(meta FROM '"archived":(true|false)') = 'true', false)) STORED;
CREATE INDEX sessions_listed ON sidecar.sessions (owner, updated_ms DESC, id COLLATE "C" DESC);
CREATE INDEX sessions_of_folder ON sidecar.sessions (owner, cwd, updated_ms DESC, id COLLATE "C" DESC);
DROP INDEX sidecar.sessions_newest;
INSERT INTO sidecar.migrations (version) VALUES (5);
CREATE TABLE sidecar.words (
  owner text NOT NULL DEFAULT current_user,
  word text NOT NULL,
  session text NOT NULL,
  PRIMARY KEY (owner, word, session)
);
CREATE FUNCTION sidecar.words_in(tsvector) RETURNS SETOF text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT DISTINCT left(part, 100)
  FROM unnest(tsvector_to_array($1)) AS word, regexp_split_to_table(word, '[!-/:-@[-`{-~]+') AS part
  WHERE part <> ''
$$;
CREATE FUNCTION sidecar.add_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO sidecar.words (owner, word, session)
  SELECT DISTINCT record.owner, word, record.session
  FROM added AS record
  JOIN sidecar.nodes AS node ON node.owner = record.owner AND node.id = record.node,
  sidecar.words_in(node.words) AS word
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE FUNCTION sidecar.drop_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM sidecar.words AS found
  WHERE found.owner = old.owner AND found.session = old.id AND found.word IN (
    SELECT word
    FROM sidecar.records AS record
    JOIN sidecar.nodes AS node ON node.owner = record.owner AND node.id = record.node,
    sidecar.words_in(node.words) AS word
    WHERE record.owner = old.owner AND record.session = old.id
  );
  RETURN old;
END $$;
CREATE TRIGGER add_words AFTER INSERT ON sidecar.records REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION sidecar.add_words();
CREATE TRIGGER drop_words BEFORE DELETE ON sidecar.sessions
  FOR EACH ROW EXECUTE FUNCTION sidecar.drop_words();
ALTER TABLE sidecar.nodes NO FORCE ROW LEVEL SECURITY;
ALTER TABLE sidecar.records NO FORCE ROW LEVEL SECURITY;
INSERT INTO sidecar.words (owner, word, session)
  SELECT DISTINCT record.owner, word, record.session
  FROM sidecar.records AS record
  JOIN sidecar.nodes AS node ON node.owner = record.owner AND node.id = record.node,
  sidecar.words_in(node.words) AS word;
ALTER TABLE sidecar.nodes FORCE ROW LEVEL SECURITY;
ALTER TABLE sidecar.records FORCE ROW LEVEL SECURITY;
DROP INDEX sidecar.nodes_words;

ALTER TABLE sidecar.sessions ADD COLUMN folded text GENERATED ALWAYS AS (
  CASE
    WHEN substring(meta FROM '"title":("(?:[^"\\]|\\.)*")') IS NULL THEN ''
    WHEN length(substring(meta FROM '"title":("(?:[^"\\]|\\.)*")')) <= 500
      AND substring(meta FROM '"title":("(?:[^"\\]|\\.)*")') ~ '^[ -\[\]-~]*$'
    THEN lower(substring(meta FROM '"title":("(?:[^"\\]|\\.)*")') COLLATE "C")
  END
) STORED;
CREATE INDEX sessions_titled ON sidecar.sessions (owner, updated_ms DESC, id COLLATE "C" DESC)
  INCLUDE (folded, archived);
DROP INDEX sidecar.sessions_listed;

ALTER TABLE sidecar.words ENABLE ROW LEVEL SECURITY;
ALTER TABLE sidecar.words FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON sidecar.words
  USING (owner = current_user::text) WITH CHECK (owner = current_user::text);
GRANT SELECT, INSERT, UPDATE, DELETE ON sidecar.words TO PUBLIC;

ALTER POLICY own_rows ON sidecar.words USING (owner = sidecar.me()) WITH CHECK (owner = sidecar.me());
INSERT INTO sidecar.migrations (version) VALUES (6);
