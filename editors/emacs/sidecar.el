;;; sidecar.el --- Conversations of the sidecar daemon  -*- lexical-binding: t; -*-

;; Version: 0.2.0
;; Package-Requires: ((emacs "29.1"))
;; Keywords: tools, convenience

;;; Commentary:

;; `sidecar' opens the conversation of a project and starts its daemon, which
;; knows the text of the project's buffers, saved or not, and what you look at.
;; Its edits land in your buffers, where undo takes them back.  What needs your
;; consent is shown as a diff; `sidecar-answer' goes there, and nothing is
;; answered by default.  When the daemon dies it is started again and the
;; conversation goes on.
;;
;; The daemon is spoken to directly and not through Eglot or lsp-mode, which
;; stay free for the language servers of the same buffers.  The model may ask
;; these: Eglot's for all it can, any other by Xref for definitions and uses.
;;
;; The parts, in this order: settings; the wire; buffers and their edits; what
;; the user sees; what language servers know; the conversation as a buffer;
;; questions; commands.

;;; Code:

(when (< emacs-major-version 29)
  (error "Sidecar needs Emacs 29 or later, and this is %s" emacs-version))

(require 'cl-lib)
(require 'diff)
(require 'diff-mode)
(require 'project)
(require 'ring)
(require 'subr-x)
(require 'url-util)
(eval-when-compile (require 'flymake))

(declare-function ediff-buffers "ediff")
(declare-function eglot-current-server "eglot")
(declare-function eglot-server-capable "eglot")
(declare-function eglot--TextDocumentIdentifier "eglot")
(declare-function eglot--TextDocumentPositionParams "eglot")
(declare-function eglot--capabilities "eglot")
(declare-function eglot--signal-textDocument/didChange "eglot")
(declare-function flymake-diagnostic-data "flymake")
(declare-function flymake-diagnostics "flymake")
(declare-function flymake-make-diagnostic "flymake")
(declare-function flymake-start "flymake")
(declare-function jsonrpc-async-request "jsonrpc")
(declare-function xref-backend-definitions "xref")
(declare-function xref-backend-references "xref")
(declare-function xref-find-backend "xref")
(declare-function xref-item-location "xref")
(declare-function xref-location-marker "xref")
(defvar flymake-mode)

;;; Settings

(defgroup sidecar nil
  "Agent conversations beside the editor."
  :group 'tools)

(defcustom sidecar-command '("sidecar" "serve")
  "The daemon's program and its arguments.
It runs on the machine of the project's files, which may be another one."
  :type '(repeat string))

(defcustom sidecar-model nil
  "The model of new conversations, nil for the daemon's choice."
  :type '(choice (const nil) string))

(defcustom sidecar-options nil
  "Options for the daemon, as a property list."
  :type 'plist)

(defface sidecar-prompt '((t :inherit font-lock-function-name-face :weight bold))
  "What the user has written.")

(defface sidecar-tool '((t :inherit font-lock-keyword-face))
  "What the model does.")

(defface sidecar-detail '((t :inherit shadow))
  "Output, thinking, and remarks on the conversation.")

(defface sidecar-notice '((t :inherit warning))
  "What the user should see.")

(defconst sidecar--folded 3 "How many lines of output are shown of a folded item.")
(defconst sidecar--again-at-most 3 "How often in a minute a daemon is started again.")
(defconst sidecar--busy
  '(("invoking" . "asking the model") ("streaming" . "answering")
    ("dispatching" . "using tools") ("compacting" . "compacting"))
  "The phases in which something goes on, in words.")

;;; The wire

(cl-defstruct (sidecar--talk (:copier nil))
  "A project, its daemon and its conversation."
  root process (next-id 0) (pending (make-hash-table)) is-ready had-answer
  sid (phase "idle") usage (queued 0) options commands (title "")
  waiting ends is-stopped is-restarting
  (versions (make-hash-table :test #'eq)) (hints (make-hash-table :test #'equal))
  buffer questions last-context sent work change)

(defvar sidecar--talks (make-hash-table :test #'equal)
  "The conversations, by the folder of their project.")

(defvar-local sidecar--talk nil
  "The conversation that this buffer belongs to.")

(defun sidecar--here ()
  "Return the conversation of this buffer's project."
  (or sidecar--talk
      (let* ((project (project-current))
             (folder (if project (project-root project) default-directory))
             (root (directory-file-name (file-truename folder))))
        (or (gethash root sidecar--talks)
            (puthash root (make-sidecar--talk :root root) sidecar--talks)))))

(defun sidecar--folder (talk)
  "Return the folder of the project of TALK as its daemon names it."
  (file-local-name (sidecar--talk-root talk)))

(defun sidecar--live-p (talk)
  "Return whether the daemon of TALK is alive."
  (process-live-p (sidecar--talk-process talk)))

(defun sidecar--send (talk message)
  "Send MESSAGE, a property list, to the daemon of TALK."
  (when (sidecar--live-p talk)
    (let* ((json (json-serialize `(:jsonrpc "2.0" ,@message)))
           (body (if (multibyte-string-p json) (encode-coding-string json 'utf-8) json)))
      (process-send-string (sidecar--talk-process talk)
                           (format "Content-Length: %d\r\n\r\n%s" (string-bytes body) body)))))

(defun sidecar--notify (talk method params)
  "Notify the daemon of TALK of METHOD with PARAMS."
  (sidecar--send talk (list :method method :params params)))

(defun sidecar--request (talk method params run &optional on-problem)
  "Ask TALK's daemon for METHOD with PARAMS, and call RUN with the result.
Problems are told unless ON-PROBLEM takes them."
  (sidecar--flush talk)
  (let ((id (cl-incf (sidecar--talk-next-id talk))))
    (puthash id (cons run (or on-problem #'sidecar--tell-problem)) (sidecar--talk-pending talk))
    (sidecar--send talk (list :id id :method method :params params))))

(defun sidecar--problem-text (problem)
  "Return what PROBLEM an answer has, and what to do."
  (let ((hint (plist-get (plist-get problem :data) :hint)))
    (concat (plist-get problem :message) (and hint "; ") hint)))

(defun sidecar--tell-problem (problem)
  "Say what PROBLEM an answer has."
  (message "Sidecar: %s" (sidecar--problem-text problem)))

(defun sidecar--read-messages (process bytes)
  "Handle the messages of PROCESS that are whole once BYTES have come."
  (let ((talk (process-get process 'sidecar-talk)) messages)
    (with-current-buffer (process-buffer process)
      (goto-char (point-max))
      (insert bytes)
      (goto-char (point-min))
      (while (and (looking-at "\\(?:.*\r\n\\)*?Content-Length: *\\([0-9]+\\)\r\n\\(?:.+\r\n\\)*\r\n")
                  (let ((start (match-end 0))
                        (size (string-to-number (match-string 1))))
                    (when (<= (+ start size) (point-max))
                      (goto-char start)
                      (push (save-restriction
                              (narrow-to-region start (+ start size))
                              (json-parse-string
                               (decode-coding-string (buffer-string) 'utf-8)
                               :object-type 'plist :array-type 'list
                               :null-object nil :false-object nil))
                            messages)
                      (delete-region (point-min) (+ start size))
                      (goto-char (point-min))
                      t)))))
    (dolist (message (nreverse messages))
      (with-demoted-errors "Sidecar: %S" (sidecar--handle talk message)))))

(defun sidecar--handle (talk message)
  "Handle one MESSAGE of the daemon of TALK."
  (let ((id (plist-get message :id)) (method (plist-get message :method))
        (params (plist-get message :params))
        (default-directory (file-name-as-directory (sidecar--talk-root talk))))
    (cond
     ((null method)
      (when-let* ((waiting (gethash id (sidecar--talk-pending talk))))
        (remhash id (sidecar--talk-pending talk))
        (if (plist-member message :error)
            (funcall (cdr waiting) (plist-get message :error))
          (funcall (car waiting) (plist-get message :result)))))
     (id (sidecar--answer-request talk id method params))
     ((equal method "sidecar/event")
      (when (equal (plist-get params :sid) (sidecar--talk-sid talk))
        (if (equal (plist-get params :kind) "sessionChosen")
            ;; Else another window has sent the command.
            (when (equal (plist-get params :turnId) (sidecar--talk-sent talk))
              (sidecar--open talk (plist-get (plist-get params :data) :sid)))
          (sidecar--on-event talk (plist-get params :kind) (plist-get params :data))
          (when (member (plist-get params :kind) '("settled" "faulted"))
            (sidecar--end-change talk (plist-get params :turnId))))))
     ((equal method "sidecar/sessions/changed")
      (dolist (line (plist-get params :sessions))
        (when (equal (plist-get line :sid) (sidecar--talk-sid talk))
          (setf (sidecar--talk-work talk) line)
          (force-mode-line-update t))))
     ((equal method "sidecar/permission/resolved")
      (sidecar--end-question talk (plist-get params :permissionId) nil))
     ((equal method "sidecar/elicitResolved")
      (sidecar--end-question talk (plist-get params :elicitationId) nil))
     ((equal method "sidecar/gap")
      (sidecar--say talk "· events were lost on the way; sidecar-transcript has everything"))
     ((equal method "textDocument/publishDiagnostics")
      (sidecar--take-hints talk params)))))

(defun sidecar--answer-request (talk id method params)
  "Answer the daemon's request ID of TALK for METHOD with PARAMS, now or later."
  (cond
   ((equal method "sidecar/permission/request") (sidecar--ask talk id params))
   ((equal method "sidecar/elicit") (sidecar--show-form talk id params))
   ((equal method "sidecar/editor/query")
    (let ((reply (lambda (answer) (sidecar--send talk (list :id id :result answer)))))
      (condition-case problem
          (sidecar--answer-query params reply)
        (error (funcall reply (list :problem (error-message-string problem)))))))
   ((equal method "workspace/applyEdit")
    (let ((applied (condition-case nil
                       (sidecar--apply talk (plist-get params :edit))
                     (error nil))))
      (sidecar--flush talk)
      (sidecar--send talk (list :id id :result (list :applied (if applied t :false))))))
   (t (sidecar--send talk (list :id id :result :null)))))

(defun sidecar--capabilities ()
  "Return what this client can do, for the handshake."
  '(:general (:positionEncodings ["utf-32"])
    :workspace (:applyEdit t :workspaceEdit (:documentChanges t)
                :textDocumentContent (:dynamicRegistration :false))
    :textDocument (:publishDiagnostics (:relatedInformation :false))
    :experimental (:sidecar (:protocol [1] :events (:coalesceMs 30) :permission (:diffs t)
                             :elicitation (:form (:fields t) :url (:shown t))
                             :editor (:query ["definition" "references" "documentSymbols"
                                              "workspaceSymbols" "hover" "rename" "codeActions"])))))

(defun sidecar--program (talk)
  "Return the daemon's program for TALK, on the machine of its project."
  (let ((default-directory (file-name-as-directory (sidecar--talk-root talk))))
    (unless (executable-find (car sidecar-command) t)
      (setf (sidecar--talk-waiting talk) nil)
      (user-error "There is no program %s%s; `sidecar-command' names it" (car sidecar-command)
                  (if-let* ((host (file-remote-p default-directory 'host))) (concat " on " host) ""))))
  sidecar-command)

(defconst sidecar--far "stty raw -echo >/dev/null 2>&1; echo; exec \"$0\" \"$@\""
  "What a shell on another machine does, with the daemon's program behind it.")

(defun sidecar--await-shell (process)
  "Wait until the shell of PROCESS has read its command: it would eat what follows."
  (let ((filter (process-filter process)) has-begun)
    (set-process-filter process (lambda (_process _text) (setq has-begun t)))
    (with-timeout (30 (user-error "The other machine does not answer"))
      (while (and (process-live-p process) (not has-begun)) (accept-process-output process 0.05)))
    (set-process-filter process filter)))

(defun sidecar--start (talk)
  "Start the daemon of TALK, and go on with its conversation if it had one."
  (clrhash (sidecar--talk-pending talk))
  (clrhash (sidecar--talk-versions talk))
  (let* ((default-directory (file-name-as-directory (sidecar--talk-root talk)))
         (host (file-remote-p default-directory))
         (name (file-name-nondirectory (sidecar--talk-root talk)))
         (process (make-process
                   :name "sidecar" :connection-type 'pipe :file-handler t
                   ;; On another machine it may get a terminal, which must not change a byte.
                   :command (if host `("sh" "-c" ,sidecar--far ,@(sidecar--program talk))
                              (sidecar--program talk))
                   :coding 'no-conversion :noquery t
                   :buffer (generate-new-buffer (format " *sidecar wire %s*" name))
                   :stderr (get-buffer-create (format " *sidecar log %s*" name))
                   :filter #'sidecar--read-messages :sentinel #'sidecar--on-end)))
    (with-current-buffer (process-buffer process) (set-buffer-multibyte nil))
    (process-put process 'sidecar-talk talk)
    (when host (sidecar--await-shell process))
    (setf (sidecar--talk-process talk) process
          (sidecar--talk-is-stopped talk) nil
          (sidecar--talk-is-ready talk) nil)
    (let ((id (cl-incf (sidecar--talk-next-id talk))))
      (puthash id (cons (lambda (_) (sidecar--on-ready talk)) #'sidecar--tell-problem)
               (sidecar--talk-pending talk))
      (sidecar--send
       talk (list :id id :method "initialize"
                  :params (list :processId (if host :null (emacs-pid)) :clientInfo '(:name "Emacs")
                                :rootUri (sidecar--uri (sidecar--talk-root talk))
                                :capabilities (sidecar--capabilities)
                                :initializationOptions (list :sidecar sidecar-options)))))))

(defun sidecar--on-ready (talk)
  "Give the daemon of TALK the buffers, and open the conversation."
  (setf (sidecar--talk-is-ready talk) t
        (sidecar--talk-had-answer talk) t)
  (sidecar--notify talk "initialized" nil)
  (sidecar-follow-mode 1)
  (dolist (buffer (buffer-list))
    (with-current-buffer buffer (sidecar--attach talk)))
  (sidecar--open-session talk))

(defun sidecar--open-session (talk)
  "Begin the conversation of TALK, or go on with the one that there was."
  (let ((run (lambda (result) (sidecar--take-snapshot talk result))))
    (cond
     ((sidecar--talk-sid talk)
      (sidecar--request talk "sidecar/session/load" (list :sid (sidecar--talk-sid talk)) run
                        (lambda (problem)
                          (setf (sidecar--talk-sid talk) nil)
                          (sidecar--say talk (plist-get problem :message) 'sidecar-notice)
                          (sidecar--open-session talk))))
     ((sidecar--talk-waiting talk)
      (sidecar--request talk "sidecar/session/new"
                        `(:cwd ,(sidecar--folder talk)
                          ,@(and sidecar-model (list :model sidecar-model)))
                        run
                        (lambda (problem)
                          (setf (sidecar--talk-waiting talk) nil)
                          (sidecar--tell-problem problem)))))))

(defun sidecar--take-snapshot (talk result)
  "Take over the state in RESULT for TALK, and do what waited for it."
  (let ((snapshot (plist-get result :snapshot)))
    (setf (sidecar--talk-sid talk) (plist-get snapshot :sid)
          (sidecar--talk-title talk) (plist-get snapshot :title)
          (sidecar--talk-phase talk) (plist-get snapshot :phase)
          (sidecar--talk-work talk) snapshot
          (sidecar--talk-options talk) (plist-get result :configOptions)
          (sidecar--talk-usage talk) (plist-get result :usage)
          (sidecar--talk-queued talk) (length (plist-get snapshot :queue))))
  (sidecar--report talk)
  (let ((waiting (reverse (sidecar--talk-waiting talk))))
    (setf (sidecar--talk-waiting talk) nil)
    (mapc #'funcall waiting))
  (force-mode-line-update t))

(defun sidecar--with-session (talk run)
  "Call RUN once TALK has a conversation."
  (if (and (sidecar--talk-is-ready talk) (sidecar--talk-sid talk) (not (sidecar--talk-waiting talk)))
      (funcall run)
    (push run (sidecar--talk-waiting talk))
    (cond ((not (sidecar--live-p talk)) (sidecar--start talk))
          ((and (sidecar--talk-is-ready talk) (null (cdr (sidecar--talk-waiting talk))))
           (sidecar--open-session talk)))))

(defun sidecar--on-end (process _event)
  "Say why PROCESS ended, start it again, and go on with the conversation."
  (unless (process-live-p process)
    (let* ((talk (process-get process 'sidecar-talk))
           (code (process-exit-status process))
           (why (if (eq (process-status process) 'signal)
                    (format "was ended by signal %d" code)
                  (format "ended with code %d" code)))
           (lost (if (assoc (sidecar--talk-phase talk) sidecar--busy)
                     "; the answer in progress is lost" ""))
           (now (float-time)))
      (when (buffer-live-p (process-buffer process)) (kill-buffer (process-buffer process)))
      (setf (sidecar--talk-is-ready talk) nil
            (sidecar--talk-phase talk) "idle"
            (sidecar--talk-queued talk) 0
            (sidecar--talk-ends talk)
            (cons now (cl-remove-if (lambda (at) (> (- now at) 60)) (sidecar--talk-ends talk))))
      (dolist (question (sidecar--talk-questions talk))
        (sidecar--end-question talk (sidecar--question-id question) nil))
      (cond
       ((sidecar--talk-is-restarting talk)
        (setf (sidecar--talk-is-restarting talk) nil)
        (sidecar--start talk))
       ((sidecar--talk-is-stopped talk))
       ((or (not (sidecar--talk-had-answer talk))
            (> (length (sidecar--talk-ends talk)) sidecar--again-at-most))
        (setf (sidecar--talk-waiting talk) nil)
        (sidecar--say talk (format "The daemon %s%s; sidecar-log has its last words" why lost)
                      'sidecar-notice))
       (t
        (sidecar--say talk (format "The daemon %s%s.  It is started again" why lost)
                      'sidecar-notice)
        (sidecar--start talk))))))

;;; Buffers and their edits

(defvar-local sidecar--is-changed nil
  "Whether this buffer has changes that the daemon does not know.")

(defun sidecar--uri (path)
  "Return PATH as a URI.
A file on another machine has its name there: the daemon runs there, too."
  (concat "file://" (url-hexify-string (encode-coding-string (file-local-name path) 'utf-8)
                                       url-path-allowed-chars)))

(defun sidecar--path (uri)
  "Return the path of a URI of a file, on the machine of this buffer."
  (sidecar--from-there
   (decode-coding-string (url-unhex-string (string-remove-prefix "file://" uri)) 'utf-8)))

(defun sidecar--from-there (path)
  "Return PATH, as a daemon names it, on the machine of this buffer."
  (concat (file-remote-p default-directory) path))

(defun sidecar--name (uri)
  "Return how the file at URI is called here."
  (file-relative-name (sidecar--path uri)))

(defun sidecar--text ()
  "Return the text of this buffer, whatever is narrowed."
  (save-restriction (widen) (buffer-substring-no-properties (point-min) (point-max))))

(defun sidecar--attach (talk)
  "Let the daemon of TALK know this buffer, if it has a file of the project."
  (when (and buffer-file-name (sidecar--talk-is-ready talk)
             (not (gethash (current-buffer) (sidecar--talk-versions talk)))
             (string-prefix-p (file-name-as-directory (sidecar--talk-root talk))
                              (file-truename buffer-file-name)))
    (setq sidecar--is-changed nil)
    (puthash (current-buffer) 0 (sidecar--talk-versions talk))
    (sidecar--notify talk "textDocument/didOpen"
                     (list :textDocument
                           (list :uri (sidecar--uri buffer-file-name) :version 0
                                 :languageId (string-remove-suffix "-mode" (symbol-name major-mode))
                                 :text (sidecar--text))))
    (add-hook 'after-change-functions #'sidecar--on-change nil t)
    (add-hook 'after-save-hook #'sidecar--on-save nil t)
    (add-hook 'kill-buffer-hook #'sidecar--detach nil t)
    (add-hook 'flymake-diagnostic-functions #'sidecar-flymake nil t)))

(defun sidecar--each-with-buffer (run)
  "Call RUN with each conversation whose daemon knows this buffer."
  (maphash (lambda (_ talk)
             (when (and (sidecar--talk-is-ready talk)
                        (gethash (current-buffer) (sidecar--talk-versions talk)))
               (funcall run talk)))
           sidecar--talks))

(defun sidecar--on-change (&rest _)
  "Note that this buffer has changed."
  (setq sidecar--is-changed t))

(defun sidecar--flush (talk)
  "Send the daemon of TALK the text of the buffers that have changed."
  (dolist (buffer (hash-table-keys (sidecar--talk-versions talk)))
    (when (and (buffer-live-p buffer) (buffer-local-value 'sidecar--is-changed buffer))
      (with-current-buffer buffer
        (setq sidecar--is-changed nil)
        (sidecar--each-with-buffer
         (lambda (each)
           (sidecar--notify
            each "textDocument/didChange"
            (list :textDocument
                  (list :uri (sidecar--uri buffer-file-name)
                        :version (cl-incf (gethash buffer (sidecar--talk-versions each))))
                  :contentChanges (vector (list :text (sidecar--text)))))))))))

(defun sidecar--on-save ()
  "Tell that this buffer is on the disk now."
  (sidecar--each-with-buffer
   (lambda (talk)
     (sidecar--flush talk)
     (sidecar--notify talk "textDocument/didSave"
                      (list :textDocument (list :uri (sidecar--uri buffer-file-name)))))))

(defun sidecar--detach ()
  "Tell that this buffer is gone."
  (sidecar--each-with-buffer
   (lambda (talk)
     (remhash (current-buffer) (sidecar--talk-versions talk))
     (sidecar--notify talk "textDocument/didClose"
                      (list :textDocument (list :uri (sidecar--uri buffer-file-name)))))))

(defun sidecar--point-at (position)
  "Return the place of POSITION in this buffer."
  (goto-char (point-min))
  (forward-line (plist-get position :line))
  (min (line-end-position) (+ (point) (plist-get position :character))))

(defun sidecar--apply (talk edit)
  "Apply EDIT of TALK's daemon to open buffers, and return whether it could be."
  (cl-loop
   for change in (plist-get edit :documentChanges)
   for document = (plist-get change :textDocument)
   for buffer = (find-buffer-visiting (sidecar--path (plist-get document :uri)))
   always (and buffer (not (buffer-local-value 'sidecar--is-changed buffer))
               (eql (gethash buffer (sidecar--talk-versions talk)) (plist-get document :version))
               (with-current-buffer buffer
                 (sidecar--apply-here (plist-get change :edits))
                 t))))

(defun sidecar--apply-here (edits)
  "Apply EDITS to this buffer as one step of undo; nothing else is touched."
  (undo-boundary)
  (atomic-change-group
    (save-excursion
      (save-restriction
        (widen)
        (dolist (edit (reverse edits))
          (let* ((range (plist-get edit :range))
                 (start (sidecar--point-at (plist-get range :start)))
                 (end (sidecar--point-at (plist-get range :end))))
            (delete-region start end)
            (goto-char start)
            (insert (plist-get edit :newText)))))))
  (undo-boundary))

(defun sidecar--take-hints (talk params)
  "Keep the hints in PARAMS of TALK's daemon, and show them."
  (let ((uri (plist-get params :uri)))
    (puthash uri (plist-get params :diagnostics) (sidecar--talk-hints talk))
    (when-let* ((buffer (find-buffer-visiting (sidecar--path uri))))
      (with-current-buffer buffer
        (when (bound-and-true-p flymake-mode) (flymake-start))))))

(defun sidecar-flymake (report &rest _)
  "Call REPORT with the hints on this buffer, as a backend of Flymake."
  (let (found)
    (sidecar--each-with-buffer
     (lambda (talk)
       (dolist (hint (gethash (sidecar--uri buffer-file-name) (sidecar--talk-hints talk)))
         (save-excursion
           (goto-char (point-min))
           (push (flymake-make-diagnostic (current-buffer) (point-min) (line-end-position)
                                          :note (concat "sidecar: " (plist-get hint :message)))
                 found)))))
    (funcall report found)))

;;; What the user sees

(defvar sidecar--timer nil
  "The timer that reports what the user sees.")

(define-minor-mode sidecar-follow-mode
  "Let the daemons know the project's buffers and what you look at."
  :global t :group 'sidecar
  (when (timerp sidecar--timer) (cancel-timer sidecar--timer))
  (if sidecar-follow-mode
      (progn
        (setq sidecar--timer (run-with-idle-timer 0.3 t #'sidecar--report-all))
        (add-hook 'find-file-hook #'sidecar--attach-to-all)
        (add-to-list 'mode-line-misc-info '(sidecar-follow-mode (:eval (sidecar--escape (sidecar-gauge))))))
    (remove-hook 'find-file-hook #'sidecar--attach-to-all)))

(defun sidecar--attach-to-all ()
  "Let every daemon know this buffer if it is one of its project."
  (maphash (lambda (_ talk) (sidecar--attach talk)) sidecar--talks))

(defun sidecar--position (place)
  "Return PLACE as a position."
  (save-excursion
    (goto-char place)
    (list :line (1- (line-number-at-pos nil t)) :character (- (point) (line-beginning-position)))))

(defun sidecar--range (start end)
  "Return the range from START to END."
  (list :start (sidecar--position start) :end (sidecar--position end)))

(defun sidecar--active-file ()
  "Return the file in front, for a report."
  (list :uri (sidecar--uri buffer-file-name)
        :isDirty (if (buffer-modified-p) t :false)
        :selections (vector (if (use-region-p)
                                (sidecar--range (region-beginning) (region-end))
                              (sidecar--range (point) (point))))
        :visibleRanges (if (eq (window-buffer) (current-buffer))
                           (vector (sidecar--range (window-start) (window-end)))
                         [])))

(defun sidecar--diagnostics ()
  "Return the diagnostics of this buffer, for a report."
  (list
   :uri (sidecar--uri buffer-file-name)
   :diagnostics
   (vconcat
    (when (bound-and-true-p flymake-mode)
      (cl-loop for each in (flymake-diagnostics)
               for text = (flymake-diagnostic-text each)
               unless (string-prefix-p "sidecar: " text)
               collect (list :range (sidecar--range (flymake-diagnostic-beg each)
                                                    (flymake-diagnostic-end each))
                             :severity (pcase (flymake-diagnostic-type each)
                                         ((or :error 'eglot-error) 1)
                                         ((or :warning 'eglot-warning) 2)
                                         (_ 3))
                             :message text))))))

(defun sidecar--report (talk)
  "Report the editor to the daemon of TALK, if that changed."
  (sidecar--flush talk)
  (let* ((buffers (cl-remove-if-not #'buffer-live-p (hash-table-keys (sidecar--talk-versions talk))))
         (front (window-buffer (selected-window)))
         (report (list :positionEncoding "utf-32" :replacesDiagnostics t
                       :tabs (vconcat (mapcar (lambda (buffer)
                                                (list :uri (sidecar--uri (buffer-file-name buffer))
                                                      :isDirty (if (buffer-modified-p buffer) t :false)))
                                              buffers))
                       :diagnostics (vconcat (mapcar (lambda (buffer)
                                                       (with-current-buffer buffer
                                                         (sidecar--diagnostics)))
                                                     buffers)))))
    (when (memq front buffers)
      (setq report (append report (list :active (with-current-buffer front (sidecar--active-file))))))
    (unless (equal report (sidecar--talk-last-context talk))
      (setf (sidecar--talk-last-context talk) report)
      (sidecar--notify talk "sidecar/editor/context" report))))

(defun sidecar--report-all ()
  "Report the editor to every daemon."
  (maphash (lambda (_ talk)
             (when (sidecar--talk-is-ready talk) (sidecar--report talk)))
           sidecar--talks))

(defun sidecar--gauge (usage)
  "Return how full the window is by USAGE; the bar has the mark of compactions."
  (let* ((used (plist-get usage :used)) (window (plist-get usage :window))
         (full (and (> window 0) (round (* 10.0 used) window)))
         (mark (and (> window 0) (round (* 10.0 (plist-get usage :limit)) window))))
    (if (zerop window)
        (format "%d tokens" used)
      (format "%s %d%% of %s"
              (mapconcat (lambda (at) (cond ((<= at full) "█") ((= at mark) "┃") (t "░")))
                         (number-sequence 1 10) "")
              (round (plist-get usage :pct))
              (if (< window 1000) window (format "%dk" (/ window 1000)))))))

(defun sidecar--escape (text)
  "Return TEXT as it has to be in a mode line to be shown as it is."
  (string-replace "%" "%%" text))

(defun sidecar--waiting-p (talk)
  "Return whether the conversation of TALK waits for its user."
  (or (sidecar--talk-questions talk)
      (equal (plist-get (sidecar--talk-work talk) :state) "waiting")))

(defun sidecar-gauge ()
  "Return the state of this project's conversation, for a mode line."
  (let ((talk (or sidecar--talk
                  (and buffer-file-name
                       (cl-loop for each being the hash-values of sidecar--talks
                                when (gethash (current-buffer) (sidecar--talk-versions each))
                                return each)))))
    (if-let* ((usage (and talk (sidecar--talk-usage talk))))
        (format " %s%s " (sidecar--gauge usage)
                (if (sidecar--waiting-p talk) " waiting for you"
                  (if-let* ((word (cdr (assoc (sidecar--talk-phase talk) sidecar--busy))))
                      (concat " " word) "")))
      "")))

;;; What language servers know

(defconst sidecar--most-resolved 20 "How many code actions are asked for their edits.")
(defconst sidecar--questions
  '(("definition" :textDocument/definition :definitionProvider)
    ("references" :textDocument/references :referencesProvider)
    ("documentSymbols" :textDocument/documentSymbol :documentSymbolProvider)
    ("workspaceSymbols" :workspace/symbol :workspaceSymbolProvider)
    ("hover" :textDocument/hover :hoverProvider)
    ("rename" :textDocument/rename :renameProvider)
    ("codeActions" :textDocument/codeAction :codeActionProvider))
  "The kinds of questions with their methods and capabilities.")

(defun sidecar--file-buffer (path)
  "Return a buffer of the file at PATH.
For a folder it is one of a file below it that Eglot manages."
  (if (file-directory-p path)
      (cl-find-if (lambda (buffer)
                    (with-current-buffer buffer
                      (and buffer-file-name (file-in-directory-p buffer-file-name path)
                           (sidecar--server))))
                  (buffer-list))
    (let ((enable-local-variables :safe) (large-file-warning-threshold nil) (inhibit-message t))
      (or (find-buffer-visiting path) (find-file-noselect path t)))))

(defun sidecar--server ()
  "Return the language server that Eglot has for this buffer."
  (and (featurep 'eglot) (eglot-current-server)))

(defun sidecar--answer-query (params reply)
  "Find the answer to the daemon's question PARAMS, and call REPLY once."
  (let* ((kind (plist-get params :kind))
         (question (assoc kind sidecar--questions))
         (buffer (sidecar--file-buffer (sidecar--path (plist-get params :uri)))))
    (if (null buffer)
        (funcall reply '(:problem "no language server runs in Emacs for this folder"))
      (with-current-buffer buffer
        (save-excursion
          (save-restriction
            (widen)
            (when-let* ((position (plist-get params :position)))
              (goto-char (sidecar--point-at position)))
            (cond
             ((and (sidecar--server) (eglot-server-capable (nth 2 question)))
              (sidecar--ask-eglot kind (nth 1 question) (plist-get params :text) reply))
             ((member kind '("definition" "references")) (sidecar--ask-xref kind reply))
             (t (funcall reply '(:problem "no language server runs in Emacs for this file"))))))))))

(defun sidecar--ask-eglot (kind method text reply)
  "Ask Eglot's server a question of KIND by METHOD about TEXT and point.
REPLY gets the answer."
  (let* ((server (sidecar--server))
         (encoding (or (plist-get (eglot--capabilities server) :positionEncoding) "utf-16"))
         (answer (lambda (found)
                   (funcall reply (and found (list :answer (sidecar--as-sent found)
                                                   :positionEncoding encoding))))))
    (eglot--signal-textDocument/didChange)
    (sidecar--ask-server
     server method
     (pcase kind
       ("workspaceSymbols" (list :query text))
       ("documentSymbols" (list :textDocument (eglot--TextDocumentIdentifier)))
       ("codeActions" (sidecar--code-action-params))
       (_ `(,@(eglot--TextDocumentPositionParams)
            ,@(pcase kind
                ("references" '(:context (:includeDeclaration t)))
                ("rename" (list :newName text))))))
     (if (and (equal kind "codeActions") (eglot-server-capable :codeActionProvider :resolveProvider))
         (lambda (found) (sidecar--resolve server found answer))
       answer)
     (lambda (problem) (funcall reply (list :problem problem))))))

(defun sidecar--ask-server (server method params run on-problem)
  "Ask SERVER for METHOD with PARAMS.
RUN gets the result, or ON-PROBLEM the words of an error."
  (jsonrpc-async-request server method params :timeout 8 :success-fn run
                         :error-fn (lambda (problem) (funcall on-problem (plist-get problem :message)))
                         :timeout-fn (lambda () (funcall on-problem "it has not answered in 8 seconds"))))

(defun sidecar--code-action-params ()
  "Return the params of a question for the code actions of the line at point."
  (let* ((start (line-beginning-position)) (end (line-end-position))
         (place (lambda (at)
                  (goto-char at)
                  (plist-get (eglot--TextDocumentPositionParams) :position)))
         (found (and (bound-and-true-p flymake-mode)
                     (cl-loop for each in (flymake-diagnostics start end)
                              for data = (flymake-diagnostic-data each)
                              for own = (and (consp data) (alist-get 'eglot-lsp-diag data))
                              when own collect own))))
    (list :textDocument (eglot--TextDocumentIdentifier)
          :range (list :start (funcall place start) :end (funcall place end))
          :context (list :diagnostics (vconcat found)))))

(defun sidecar--resolve (server actions run)
  "Call RUN with ACTIONS, the first of them with their edits from SERVER."
  (let* ((all (append actions nil)) (open 1)
         (done (lambda () (when (zerop (cl-decf open)) (funcall run (vconcat all))))))
    (cl-loop for cell on all repeat sidecar--most-resolved
             unless (plist-get (car cell) :edit)
             do (let ((cell cell))
                  (cl-incf open)
                  (sidecar--ask-server server :codeAction/resolve (car cell)
                                       (lambda (found) (setcar cell found) (funcall done))
                                       (lambda (_) (funcall done)))))
    (funcall done)))

(defun sidecar--as-sent (value)
  "Return VALUE of Eglot's, which has other words for false and null."
  (json-parse-string (json-serialize value :null-object nil :false-object :json-false)
                     :object-type 'plist))

(defun sidecar--ask-xref (kind reply)
  "Ask the Xref backend a question of KIND about the symbol at point.
REPLY gets the answer."
  (require 'xref)
  (let ((backend (xref-find-backend)) (symbol (thing-at-point 'symbol t)))
    (if (or (null symbol) (memq backend '(nil etags))) ; the latter would ask for a file
        (funcall reply '(:problem "no language server runs in Emacs for this file"))
      (funcall reply
               (list :answer
                     (vconcat
                      (mapcar #'sidecar--location
                              (seq-take (if (equal kind "definition")
                                            (xref-backend-definitions backend symbol)
                                          (xref-backend-references backend symbol))
                                        200))))))))

(defun sidecar--location (item)
  "Return the place of an ITEM of Xref as a Location."
  (let ((marker (xref-location-marker (xref-item-location item))))
    (with-current-buffer (marker-buffer marker)
      (save-restriction
        (widen)
        (let ((start (list :line (1- (line-number-at-pos marker)) :character 0)))
          (list :uri (sidecar--uri (or buffer-file-name default-directory))
                :range (list :start start :end start)))))))

;;; The conversation as a buffer

(defvar-local sidecar--end nil
  "Where more of the conversation goes: before the line that one writes on.")
(defvar-local sidecar--input nil
  "Where what the user writes begins.")
(defvar-local sidecar--items nil
  "What is shown, by its id.")
(defvar-local sidecar--history nil
  "What the user has sent.")
(defvar-local sidecar--history-at nil
  "How far back the user has gone in what was sent.")
(defvar-local sidecar--n-said 0
  "How many remarks there are.")

(cl-defstruct (sidecar--item (:copier nil))
  "A line of the conversation, and what is folded below it."
  id start end line face state details (folded sidecar--folded) is-open is-diff (text ""))

(defvar-keymap sidecar-chat-mode-map
  :doc "Keys of a conversation."
  "RET" #'sidecar-send
  "C-j" #'newline
  "TAB" #'sidecar-toggle-or-complete
  "M-p" #'sidecar-previous-prompt
  "M-n" #'sidecar-next-prompt
  "C-c C-c" #'sidecar-interrupt
  "C-c C-s" #'sidecar-steer
  "C-c C-a" #'sidecar-answer)

(define-derived-mode sidecar-chat-mode text-mode "Sidecar"
  "A conversation.  Write at its end; \\[sidecar-send] sends.

\\{sidecar-chat-mode-map}"
  (setq-local scroll-conservatively 101
              sidecar--items (make-hash-table :test #'equal)
              sidecar--history (make-ring 200)
              header-line-format '(:eval (sidecar--header))
              font-lock-defaults '(sidecar--keywords t))
  (setq buffer-undo-list t)
  (add-hook 'completion-at-point-functions #'sidecar-complete nil t)
  (visual-line-mode 1))

(defconst sidecar--keywords
  '(("^#+ .*$" . 'bold)
    ("\\*\\*\\([^*\n]+\\)\\*\\*" . 'bold)
    ("`[^`\n]+`" . 'font-lock-constant-face)
    ("^```.*$" . 'shadow))
  "What of Markdown is marked.")

(defun sidecar--header ()
  "Return the line above a conversation."
  (let* ((talk sidecar--talk)
         (model (cl-loop for each in (sidecar--talk-options talk)
                         when (equal (plist-get each :id) "model")
                         return (plist-get each :currentValue)))
         (queued (sidecar--talk-queued talk)))
    (sidecar--escape
     (string-join
      (cl-remove "" (list " Sidecar" (or model "") (or (sidecar--talk-title talk) "")
                          (string-trim (let ((sidecar--talk talk)) (sidecar-gauge)))
                          (if (> queued 0) (format "%d queued" queued) "")
                          (if (sidecar--talk-questions talk) "C-c C-a answers the question" ""))
                 :test #'equal)
      " · "))))

(defun sidecar--chat (talk)
  "Return the buffer of TALK, made at the first call."
  (if (buffer-live-p (sidecar--talk-buffer talk))
      (sidecar--talk-buffer talk)
    (with-current-buffer
        (generate-new-buffer
         (format "*sidecar: %s*" (file-name-nondirectory (sidecar--talk-root talk))))
      (sidecar-chat-mode)
      (setq sidecar--talk talk
            default-directory (file-name-as-directory (sidecar--talk-root talk)))
      (sidecar--begin)
      (setf (sidecar--talk-buffer talk) (current-buffer)))))

(defun sidecar--begin ()
  "Empty this conversation."
  (let ((inhibit-read-only t))
    (erase-buffer)
    (clrhash sidecar--items)
    (insert (propertize "» " 'read-only t 'face 'sidecar-prompt 'rear-nonsticky t
                        'front-sticky '(read-only) 'field 'sidecar))
    (setq sidecar--end (copy-marker (point-min) t)
          sidecar--input (copy-marker (point-max) nil))))

(defmacro sidecar--drawing (talk &rest body)
  "Change the conversation of TALK by BODY; windows at its end stay there."
  (declare (indent 1) (debug (form body)))
  `(with-current-buffer (sidecar--chat ,talk)
     (let ((inhibit-read-only t))
       (save-excursion ,@body))
     (restore-buffer-modified-p nil)
     (dolist (window (get-buffer-window-list nil nil t))
       (when (and (not (eq window (selected-window)))
                  (>= (window-point window) sidecar--input))
         (set-window-point window (point-max))))))

(defun sidecar--shown (text &optional face)
  "Return TEXT in FACE as it stands in a conversation."
  (propertize text 'read-only t 'front-sticky '(read-only) 'font-lock-face face 'field 'sidecar))

(defun sidecar--insert (text &optional face)
  "Insert TEXT in FACE at the end of the conversation."
  (goto-char sidecar--end)
  (insert (sidecar--shown text face)))

(defun sidecar--insert-apart ()
  "Let the end of the conversation follow an empty line."
  (goto-char sidecar--end)
  (unless (bobp)
    (unless (bolp) (sidecar--insert "\n"))
    (unless (eq ?\n (char-before (1- (point)))) (sidecar--insert "\n"))))

(defun sidecar--render (item)
  "Return ITEM as it is shown."
  (let* ((details (sidecar--item-details item))
         (shown (if (sidecar--item-is-open item) 400 (sidecar--item-folded item)))
         (more (- (length details) shown)))
    (concat
     (sidecar--shown (sidecar--item-line item) (sidecar--item-face item))
     (sidecar--shown (or (sidecar--item-state item) "") 'sidecar-detail)
     (sidecar--shown "\n")
     (mapconcat (lambda (line)
                  (sidecar--shown
                   (concat "  " line "\n")
                   (pcase (and (sidecar--item-is-diff item) (> (length line) 0) (aref line 0))
                     (?+ 'diff-added) (?- 'diff-removed) (_ 'sidecar-detail))))
                (seq-take details shown) "")
     (if (> more 0) (sidecar--shown (format "  … %d more lines, TAB opens them\n" more) 'shadow) ""))))

(defun sidecar--draw (item)
  "Draw ITEM where it is, or at the end."
  (if (sidecar--item-start item)
      (progn
        (goto-char (sidecar--item-start item))
        (delete-region (sidecar--item-start item) (sidecar--item-end item)))
    (sidecar--insert-apart)
    (goto-char sidecar--end))
  (let ((start (point)) (text (propertize (sidecar--render item) 'sidecar-item item)))
    (insert text)
    (setf (sidecar--item-start item) (copy-marker start nil)
          (sidecar--item-end item) (copy-marker (+ start (length text)) nil))))

(defun sidecar--item (id line &rest fields)
  "Return the item ID; where there is none, a new one with LINE and FIELDS."
  (or (gethash id sidecar--items)
      (puthash id (apply #'make-sidecar--item :id id :line line fields) sidecar--items)))

(defun sidecar--lines (text)
  "Return the lines of TEXT, without empty ones around it."
  (let ((trimmed (string-trim (replace-regexp-in-string "\r" "" (or text "")) "\n+" "[ \t\n]+")))
    (unless (string-empty-p trimmed) (split-string trimmed "\n"))))

(defun sidecar--say (talk text &optional face)
  "Add TEXT in FACE, a remark on the conversation of TALK."
  (sidecar--drawing talk
    (pcase-let ((`(,line . ,details) (sidecar--lines text)))
      (sidecar--draw (sidecar--item (format "said %d" (cl-incf sidecar--n-said)) (or line "")
                                    :face (or face 'sidecar-detail) :details details :folded 8)))))

(defun sidecar--add-text (id text)
  "Add TEXT to the message ID."
  (let ((item (or (gethash id sidecar--items)
                  (progn
                    (sidecar--insert-apart)
                    (sidecar--insert "\n")
                    (let ((start (copy-marker (1- sidecar--end) nil)))
                      (puthash id (make-sidecar--item :id id :start start :end (copy-marker start t))
                               sidecar--items))))))
    (setf (sidecar--item-text item) (concat (sidecar--item-text item) text))
    (goto-char (sidecar--item-end item))
    (insert (sidecar--shown text))))

(defun sidecar--set-text (id text)
  "Let the message ID be TEXT, whatever of it came before."
  (when-let* ((item (gethash id sidecar--items)))
    (unless (string-prefix-p (sidecar--item-text item) text)
      (delete-region (sidecar--item-start item) (sidecar--item-end item))
      (setf (sidecar--item-text item) "")))
  (let* ((item (gethash id sidecar--items))
         (rest (substring text (if item (length (sidecar--item-text item)) 0))))
    (unless (string-empty-p rest) (sidecar--add-text id rest))))

(defun sidecar--content (content kind)
  "Return the text of the blocks of KIND in CONTENT."
  (string-join
   (cl-loop for block in content for type = (plist-get block :type)
            when (equal type kind) collect (plist-get block :text)
            else unless (member type '("text" "thinking"))
            when (equal kind "text")
            collect (format "[%s]" (or (plist-get block :uri) (plist-get block :name) type)))
   "\n"))

(defun sidecar--set-thinking (id text)
  "Show that the thinking of the message ID is TEXT."
  (unless (string-empty-p text)
    (let ((item (sidecar--item (concat "thinking " id) "· thinking" :face 'sidecar-detail :folded 1)))
      (setf (sidecar--item-text item) text
            (sidecar--item-details item) (sidecar--lines text))
      (sidecar--draw item))))

(defun sidecar--diff-lines (before after)
  "Return the lines of the diff from BEFORE to AFTER."
  (let ((old (generate-new-buffer " *sidecar old*")) (new (generate-new-buffer " *sidecar new*")))
    (unwind-protect
        (progn
          (with-current-buffer old (insert (or before "")))
          (with-current-buffer new (insert after))
          (with-temp-buffer
            (let ((inhibit-message t))
              (diff-no-select old new "-U2" t (current-buffer)))
            (goto-char (point-min))
            (let ((start (and (re-search-forward "^@@" nil t) (line-beginning-position)))
                  (end (and (goto-char (point-max))
                            (re-search-backward "^\nDiff finished" nil t) (point))))
              (if start
                  (sidecar--lines (buffer-substring-no-properties start (or end (point-max))))
                (mapcar (lambda (line) (concat "+" line)) (sidecar--lines after))))))
      (kill-buffer old)
      (kill-buffer new))))

(defun sidecar--finish-tool (data)
  "Show the end of the call in DATA."
  (let ((item (sidecar--item (plist-get data :toolCallId) (concat "· " (plist-get data :title))
                             :face 'sidecar-tool))
        (diffs (plist-get data :diffs)) (content (plist-get data :content)))
    (setf (sidecar--item-state item) (if (plist-get data :isError) "  ✗" "  ✓")
          (sidecar--item-details item)
          (if diffs
              (cl-loop for diff in diffs
                       append (sidecar--diff-lines (plist-get diff :oldText) (plist-get diff :newText)))
            (and (stringp content) (sidecar--lines content)))
          (sidecar--item-is-diff item) diffs
          (sidecar--item-folded item) (if diffs 16 sidecar--folded))
    (sidecar--draw item)))

(defun sidecar--show-plan (entries)
  "Show the todo list ENTRIES."
  (let ((item (sidecar--item "plan" "· todo" :face 'sidecar-tool :folded 12))
        (done (cl-count "completed" entries :test #'equal :key (lambda (each) (plist-get each :status)))))
    (setf (sidecar--item-state item) (format "  %d of %d" done (length entries))
          (sidecar--item-details item)
          (mapcar (lambda (each)
                    (concat (pcase (plist-get each :status)
                              ("completed" "✓ ") ("in_progress" "▸ ") (_ "· "))
                            (plist-get each :content)))
                  entries))
    (sidecar--draw item)))

(defun sidecar--show-compaction (data)
  "Show the compaction in DATA."
  (let* ((status (plist-get data :status))
         (id (concat "compaction " (plist-get data :compactionId) (if (equal status "undone") status "")))
         (title (if (equal (plist-get data :trigger) "expand") "· expansion" "· compaction"))
         (item (sidecar--item id title :face 'sidecar-tool :folded 4))
         (loss (plist-get data :loss)))
    (setf (sidecar--item-state item)
          (concat "  " (pcase status
                         ("in_progress" "at work") ("completed" "done") ("noop" "nothing to compact")
                         ("undone" "undone") (_ status))
                  (if-let* ((after (plist-get data :postTokens)))
                      (format ", %d → %d tokens" (plist-get data :preTokens) after)
                    ""))
          (sidecar--item-details item)
          (append (sidecar--lines (or (plist-get data :error) (plist-get data :reason)))
                  (and loss (equal status "completed")
                       (list (format "facts: %d kept, %d shortened, %d let go (/loss lists them)"
                                     (plist-get loss :kept) (plist-get loss :shortened)
                                     (plist-get loss :gone))))
                  (and (equal status "completed") (sidecar--lines (plist-get data :summary)))))
    (sidecar--draw item)))

(defun sidecar--on-event (talk kind data)
  "Take over and show one event of TALK: its KIND and DATA."
  (pcase kind
    ("usage" (setf (sidecar--talk-usage talk) data))
    ("phase" (setf (sidecar--talk-phase talk) (plist-get data :phase)))
    ("queue" (setf (sidecar--talk-queued talk)
                   (max (or (plist-get data :total) 0) (length (plist-get data :items)))))
    ("configChanged" (setf (sidecar--talk-options talk) (plist-get data :configOptions)))
    ("commandsChanged" (setf (sidecar--talk-commands talk) (plist-get data :commands)))
    ("infoChanged" (setf (sidecar--talk-title talk) (plist-get data :title)))
    ("userMessage"
     (sidecar--drawing talk
       (remhash "plan" sidecar--items)
       (sidecar--insert-apart)
       (sidecar--insert (concat "» " (replace-regexp-in-string
                                      "\n" "\n  " (sidecar--content (plist-get data :content) "text"))
                                "\n")
                        'sidecar-prompt)))
    ("textDelta"
     (sidecar--drawing talk (sidecar--add-text (plist-get data :messageId) (plist-get data :delta))))
    ("thinkingDelta"
     (sidecar--drawing talk
       (let* ((id (plist-get data :messageId)) (item (gethash (concat "thinking " id) sidecar--items)))
         (sidecar--set-thinking id (concat (and item (sidecar--item-text item))
                                           (plist-get data :delta))))))
    ("message"
     (sidecar--drawing talk
       (let ((id (plist-get data :messageId)) (content (plist-get data :content)))
         (sidecar--set-thinking id (sidecar--content content "thinking"))
         (sidecar--set-text id (sidecar--content content "text")))))
    ("toolStarted"
     (sidecar--drawing talk
       (sidecar--draw (sidecar--item (plist-get data :toolCallId) (concat "· " (plist-get data :title))
                                     :face 'sidecar-tool :state "  …"))))
    ("toolProgress"
     (sidecar--drawing talk
       (when-let* ((item (gethash (plist-get data :toolCallId) sidecar--items)))
         (setf (sidecar--item-text item) (concat (sidecar--item-text item) (plist-get data :content))
               (sidecar--item-details item)
               (last (sidecar--lines (sidecar--item-text item)) sidecar--folded))
         (sidecar--draw item))))
    ("toolFinished" (sidecar--drawing talk (sidecar--finish-tool data)))
    ("plan" (sidecar--drawing talk (sidecar--show-plan (plist-get data :entries))))
    ("compaction" (sidecar--drawing talk (sidecar--show-compaction data)))
    (_ (sidecar--remark talk kind data)))
  (when (member kind '("settled" "faulted")) (setf (sidecar--talk-phase talk) "idle"))
  (force-mode-line-update t))

(defun sidecar--remark (talk kind data)
  "Say what an event of KIND with DATA means for the conversation of TALK."
  (pcase kind
    ("notice"
     (let ((severity (plist-get data :severity)))
       (sidecar--say talk (format "%s%s\n%s" (if (equal severity "info") "" (concat severity ": "))
                                  (plist-get data :title) (or (plist-get data :description) ""))
                     (unless (equal severity "info") 'sidecar-notice))))
    ("retry"
     (sidecar--say talk (format "the model did not answer, again in %d s (%d of %d)\n%s"
                                (ceiling (plist-get data :delayMs) 1000) (plist-get data :attempt)
                                (plist-get data :max) (plist-get data :error))
                   'sidecar-notice))
    ("rehydrated"
     (when-let* ((files (plist-get data :files)))
       (sidecar--say talk (concat "· restored as now: "
                                  (mapconcat (lambda (file) (sidecar--name (plist-get file :uri)))
                                             files ", ")))))
    ("fileStale"
     (sidecar--say talk (format "· %s changed since the model read it"
                                (sidecar--name (plist-get data :uri)))))
    ("compactionNear"
     (sidecar--say talk "· a compaction is near; /compact with a wish decides what is stressed"))
    ("budgetNear"
     (sidecar--say talk (format "· four fifths of the budget of this %s are spent; /budget shows it"
                                (plist-get data :per))
                   'sidecar-notice))
    ("headMoved"
     (when (equal (plist-get data :cause) "rewind")
       (sidecar--say talk (format "· went back; %d messages left the conversation"
                                  (length (plist-get data :removed))))))
    ("faulted" (sidecar--say talk (concat "failed: " (plist-get data :message)) 'error))
    ("settled"
     (unless (equal (plist-get data :stopReason) "end_turn")
       (sidecar--say talk (format "(%s)" (string-replace "_" " " (plist-get data :stopReason))))))))

(defun sidecar-toggle-or-complete ()
  "Open or fold the output at point; where one writes, complete."
  (interactive)
  (if (>= (point) sidecar--input)
      (completion-at-point)
    (when-let* ((item (get-text-property (point) 'sidecar-item)))
      (setf (sidecar--item-is-open item) (not (sidecar--item-is-open item)))
      (let ((place (marker-position (sidecar--item-start item))))
        (sidecar--drawing sidecar--talk (sidecar--draw item))
        (goto-char place)))))

(defun sidecar-complete ()
  "Complete a command or the name of a file, for `completion-at-point'."
  (when (>= (point) sidecar--input)
    (let* ((talk sidecar--talk) (start (marker-position sidecar--input))
           (text (buffer-substring-no-properties start (point-max)))
           (word (save-excursion (skip-chars-backward "^ \t\n" start) (point)))
           (result 'none))
      (when (or (eq ?@ (char-after word)) (eq ?/ (char-after start)))
        (sidecar--request talk "sidecar/complete"
                          (list :text text :position (- (point) start) :encoding "utf-32"
                                :cwd (sidecar--folder talk) :sid (or (sidecar--talk-sid talk) :null))
                          (lambda (found) (setq result found))
                          (lambda (_) (setq result nil)))
        (with-timeout (2 nil)
          (while (eq result 'none) (accept-process-output (sidecar--talk-process talk) 0.05)))
        (when-let* ((items (and (consp result) (plist-get result :items))))
          (list (+ start (plist-get (car items) :start)) (point)
                (mapcar (lambda (item)
                          (propertize (plist-get item :insertText)
                                      'sidecar-detail (plist-get item :detail)))
                        items)
                :annotation-function
                (lambda (each)
                  (when-let* ((detail (get-text-property 0 'sidecar-detail each)))
                    (concat "  " detail)))))))))

(defun sidecar--take-input ()
  "Return what the user has written, and take it away."
  (let ((text (string-trim (buffer-substring-no-properties sidecar--input (point-max)))))
    (delete-region sidecar--input (point-max))
    (setq sidecar--history-at nil)
    (unless (string-empty-p text) (ring-insert sidecar--history text))
    text))

(defun sidecar--recall (step)
  "Write what was sent before, STEP further back."
  (let ((at (+ (or sidecar--history-at -1) step)))
    (when (< -2 at (ring-length sidecar--history))
      (delete-region sidecar--input (point-max))
      (goto-char (point-max))
      (setq sidecar--history-at (and (>= at 0) at))
      (when (>= at 0) (insert (ring-ref sidecar--history at))))))

(defun sidecar-previous-prompt ()
  "Write the prompt before."
  (interactive)
  (sidecar--recall 1))

(defun sidecar-next-prompt ()
  "Write the prompt after."
  (interactive)
  (sidecar--recall -1))

;;; Questions

(defvar-local sidecar--question nil
  "The question that this buffer shows: its request's id and what is asked.")

(defvar-keymap sidecar-question-mode-map
  :doc "Keys of a question; no key answers it but these."
  :parent special-mode-map
  "y" #'sidecar-allow
  "a" #'sidecar-allow-always
  "n" #'sidecar-reject
  "RET" #'ignore
  "q" #'quit-window)

(define-derived-mode sidecar-question-mode diff-mode "Sidecar?"
  "A question of the daemon: a change as a diff, or a command.

\\{sidecar-question-mode-map}"
  (setq buffer-read-only t)
  (use-local-map sidecar-question-mode-map)
  (setq-local minor-mode-overriding-map-alist
              (list (cons 'buffer-read-only sidecar-question-mode-map))))

(defun sidecar--legend (params)
  "Return a line for each answer to the question PARAMS."
  (mapcar (lambda (option)
            (format "[%s] %s" (pcase (plist-get option :kind)
                                ("allow_once" "y") ("allow_always" "a") (_ "n"))
                    (plist-get option :name)))
          (plist-get params :options)))

(defun sidecar--ask (talk id params)
  "Show the question PARAMS of TALK, the daemon's request ID."
  (let ((question (cons id params)) (legend (sidecar--legend params)))
    (setf (sidecar--talk-questions talk) (append (sidecar--talk-questions talk) (list question)))
    (sidecar--drawing talk
      (sidecar--draw (sidecar--item (concat "question " (plist-get params :permissionId))
                                    (concat "? " (plist-get params :title)) :face 'sidecar-notice
                                    :details (append legend '("C-c C-a goes to the question"))
                                    :folded 8)))
    (unless (sidecar--propose talk question) (sidecar--show-question talk question legend))
    (message "Sidecar asks: %s (M-x sidecar-answer)" (plist-get params :title))
    (force-mode-line-update t)))

(defun sidecar--show-question (talk question legend)
  "Show QUESTION of TALK in a buffer of its own, below LEGEND."
  (let* ((params (cdr question)) (subject (plist-get params :subject)))
    (with-current-buffer (get-buffer-create (format "*sidecar question: %s*" (plist-get params :title)))
      (sidecar-question-mode)
      (setq sidecar--question question sidecar--talk talk)
      (setq header-line-format (sidecar--escape (concat " " (string-join legend "  "))))
      (let ((inhibit-read-only t))
        (erase-buffer)
        (insert (plist-get params :title) "\n" (or (plist-get params :description) "") "\n"
                (string-join legend "\n") "\n\n")
        (if-let* ((diffs (plist-get subject :diffs)))
            (dolist (diff diffs)
              (let ((name (file-relative-name (plist-get diff :path) (sidecar--folder talk))))
                (insert (format "--- %s\n+++ %s\n%s\n" name name
                                (string-join (sidecar--diff-lines (plist-get diff :oldText)
                                                                  (plist-get diff :newText))
                                             "\n")))))
          (insert (or (plist-get subject :detail) "") "\n"))
        (goto-char (point-min)))
      (display-buffer (current-buffer)
                      '((display-buffer-at-bottom) (window-height . 0.4) (inhibit-switch-frame . t))))))

(defvar-local sidecar--proposal nil
  "The question whose change is shown in the text of this buffer.")
(defvar-local sidecar--parts nil
  "The overlays of that change, one for each part, in order.")

(defvar-keymap sidecar-proposal-mode-map
  :doc "Keys of a change that is proposed in the text of a file."
  "C-c C-c" #'sidecar-allow
  "C-c C-k" #'sidecar-reject
  "C-c C-t" #'sidecar-toggle-part
  "C-c C-e" #'sidecar-edit-part)

(define-minor-mode sidecar-proposal-mode
  "Show a proposed change in the text that it is about, until it is answered.

\\{sidecar-proposal-mode-map}"
  :lighter " Sidecar?"
  (unless sidecar-proposal-mode
    (mapc #'delete-overlay sidecar--parts)
    (setq sidecar--parts nil sidecar--proposal nil)
    (kill-local-variable 'header-line-format)))

(defun sidecar--lines-with-ends (text)
  "Return the lines of TEXT, each with the line feed at its end."
  (let ((start 0) lines)
    (while (string-match "[^\n]*\n\\|[^\n]+" text start)
      (push (match-string 0 text) lines)
      (setq start (match-end 0)))
    (nreverse lines)))

(defun sidecar--propose (talk question)
  "Show QUESTION of TALK in the text of its file, and return whether it is there.
That is done for the change of a selection, while the file is as it was."
  (let* ((params (cdr question)) (change (sidecar--talk-change talk))
         (diffs (plist-get (plist-get params :subject) :diffs)) (diff (car diffs))
         (buffer (plist-get change :buffer)))
    (when (and change (equal (plist-get change :turn) (plist-get params :turnId)))
      (setf (sidecar--talk-change talk) (plist-put change :is-asked t))
      (when (and (length= diffs 1) (plist-get diff :hunks) (buffer-live-p buffer)
                 (eq buffer (find-buffer-visiting (sidecar--from-there (plist-get diff :path))))
                 (equal (plist-get diff :oldText) (with-current-buffer buffer (sidecar--text))))
        (with-current-buffer buffer
          (sidecar-proposal-mode -1)
          (sidecar--show-parts diff change)
          (setq sidecar--proposal question)
          (sidecar-proposal-mode 1))
        (display-buffer buffer)
        t))))

(defun sidecar--show-parts (diff change)
  "Show the parts of DIFF in this buffer; CHANGE has the lines that were meant."
  (let ((lines (sidecar--lines-with-ends (plist-get diff :newText))) is-beyond)
    (save-excursion
      (save-restriction
        (widen)
        (cl-loop for hunk in (plist-get diff :hunks)
                 for (start end) = (mapcar (lambda (key)
                                             (sidecar--point-at (list :line (plist-get hunk key) :character 0)))
                                           '(:oldStart :oldEnd))
                 for text = (string-join (seq-subseq lines (plist-get hunk :newStart) (plist-get hunk :newEnd)))
                 for overlay = (make-overlay start end)
                 do (overlay-put overlay 'sidecar-proposed text)
                 do (sidecar--set-part overlay text)
                 do (when (or (< (plist-get hunk :oldStart) (1- (plist-get change :first)))
                              (> (plist-get hunk :oldEnd) (plist-get change :last)))
                      (setq is-beyond t))
                 collect overlay into overlays
                 finally (setq sidecar--parts overlays))))
    (setq header-line-format
          (concat (and is-beyond " It goes beyond the region!")
                  " C-c C-c Allow  C-c C-k Reject  C-c C-t Refuse part  C-c C-e Edit part"))))

(defun sidecar--set-part (overlay text)
  "Let the part of OVERLAY become TEXT; nil refuses it."
  (let ((is-line (save-excursion (goto-char (overlay-end overlay)) (bolp))))
    (overlay-put overlay 'sidecar-text text)
    (overlay-put overlay 'face (if text 'diff-removed 'sidecar-detail))
    (overlay-put overlay 'after-string
                 (concat (unless is-line "\n")
                         (if text (propertize text 'face 'diff-added)
                           (propertize "· this part is refused\n" 'face 'sidecar-detail))))))

(defun sidecar--part-at-point ()
  "Return the part of the proposed change that is nearest to point."
  (unless sidecar--parts (user-error "No change is proposed here; `sidecar-change' asks for one"))
  (car (sort (copy-sequence sidecar--parts)
             (lambda (one other) (< (sidecar--distance one) (sidecar--distance other))))))

(defun sidecar--distance (overlay)
  "Return how far point is from OVERLAY."
  (max 0 (- (overlay-start overlay) (point)) (- (point) (max (overlay-start overlay) (1- (overlay-end overlay))))))

(defun sidecar-toggle-part ()
  "Refuse the part of the proposed change at point, or take it back in."
  (interactive nil sidecar-proposal-mode)
  (let ((part (sidecar--part-at-point)))
    (sidecar--set-part part (unless (overlay-get part 'sidecar-text) (overlay-get part 'sidecar-proposed)))))

(defun sidecar-edit-part ()
  "Edit the part of the proposed change at point before it is made."
  (interactive nil sidecar-proposal-mode)
  (let ((part (sidecar--part-at-point)))
    (string-edit "What is to stand there; nothing is changed before you allow it."
                 (or (overlay-get part 'sidecar-text) (overlay-get part 'sidecar-proposed))
                 (lambda (text)
                   (when-let* ((buffer (overlay-buffer part))) ; else it was answered meanwhile
                     (with-current-buffer buffer (sidecar--set-part part text))))
                 :abort-callback #'ignore)))

(defun sidecar--part-answers ()
  "Return the answers about parts that are not kept as proposed."
  (cl-loop for part in sidecar--parts
           for index from 0
           for text = (overlay-get part 'sidecar-text)
           unless (equal text (overlay-get part 'sidecar-proposed))
           collect (append (list :diff 0 :hunk index :accepted (if text t :false))
                           (and text (list :text text)))))

(defun sidecar--end-change (talk turn)
  "Forget the change of a selection by TURN of TALK, which is over."
  (when-let* ((change (sidecar--talk-change talk)) ((equal turn (plist-get change :turn))))
    (setf (sidecar--talk-change talk) nil)
    (unless (plist-get change :is-asked) (message "Nothing was asked; M-x sidecar shows the answer"))))

(defun sidecar--question-id (question)
  "Return the id of QUESTION, for permission or with a form."
  (or (plist-get (cdr question) :permissionId) (plist-get (cdr question) :elicitationId)))

(defun sidecar--end-question (talk id answer &optional parts)
  "End the question ID of TALK with ANSWER, nil where it is over.
It is an option of a question for permission, and for a form the answer whole.
PARTS are the answers about parts of a change that are not kept as proposed."
  (when-let* ((question (cl-find id (sidecar--talk-questions talk) :test #'equal
                                 :key #'sidecar--question-id)))
    (setf (sidecar--talk-questions talk) (delq question (sidecar--talk-questions talk)))
    (sidecar--send talk (list :id (car question)
                              :result (cond ((plist-get (cdr question) :elicitationId)
                                             (or answer '(:action "cancel")))
                                            (answer (list :outcome "selected"
                                                          :optionId (plist-get answer :optionId)
                                                          :hunks (vconcat parts)))
                                            (t '(:outcome "cancelled")))))
    (sidecar--drawing talk
      (let ((item (sidecar--item (concat "question " id) "?")))
        (setf (sidecar--item-state item)
              (concat "  " (or (plist-get answer :name) (plist-get answer :action) "over"))
              (sidecar--item-details item) nil)
        (sidecar--draw item)))
    (dolist (buffer (buffer-list))
      (when (eq question (buffer-local-value 'sidecar--proposal buffer))
        (with-current-buffer buffer (sidecar-proposal-mode -1)))
      (when (eq question (buffer-local-value 'sidecar--question buffer))
        (when-let* ((window (get-buffer-window buffer t)))
          (quit-restore-window window 'kill))
        (when (buffer-live-p buffer) (kill-buffer buffer))))
    (force-mode-line-update t)))

(defun sidecar--fields (params)
  "Return the fields of the form PARAMS, each with its name in front."
  (cl-loop for (name field) on (plist-get (plist-get params :schema) :properties) by #'cddr
           collect (cons (substring (symbol-name name) 1) field)))

(defun sidecar--choices (field)
  "Return the choices of FIELD as pairs of a label and a value, nil for none."
  (let* ((of (if (equal (plist-get field :type) "array") (plist-get field :items) field))
         (titled (or (plist-get of :oneOf) (plist-get of :anyOf))))
    (cond (titled (mapcar (lambda (each)
                            (cons (or (plist-get each :title) (plist-get each :const)) (plist-get each :const)))
                          titled))
          ((equal (plist-get field :type) "boolean") '(("Yes" . t) ("No" . :false)))
          (t (mapcar (lambda (each) (cons each each)) (plist-get of :enum))))))

(defun sidecar--show-form (talk id params)
  "Show the form PARAMS of TALK, the daemon's request ID.
`sidecar-answer' fills it in."
  (setf (sidecar--talk-questions talk)
        (append (sidecar--talk-questions talk) (list (cons id params))))
  (let ((lines (cl-loop for (_ . field) in (sidecar--fields params)
                        unless (equal (plist-get field :title) (plist-get params :message))
                        collect (or (plist-get field :title) "")
                        append (mapcar (lambda (choice) (concat "  " (car choice))) (sidecar--choices field)))))
    (sidecar--drawing talk
      (sidecar--draw (sidecar--item
                      (concat "question " (plist-get params :elicitationId))
                      (concat "? " (plist-get params :message)) :face 'sidecar-notice :folded 8
                      :details (append
                                (unless (equal (plist-get params :from) "agent")
                                  (list (format "the tool server %s asks" (plist-get params :from))))
                                (when (plist-get params :url)
                                  (list (concat "open this address, if you trust it: " (plist-get params :url))))
                                lines '("C-c C-a answers the question"))))))
  (message "Sidecar asks: %s (M-x sidecar-answer)" (plist-get params :message))
  (force-mode-line-update t))

(defun sidecar--read-field (name field &rest more)
  "Read the answer to FIELD, called NAME.
The labels MORE are on offer, too, and returned as they are."
  (let* ((choices (sidecar--choices field)) (type (plist-get field :type))
         (title (or (plist-get field :title) name)) (default (plist-get field :default))
         (label (lambda (value) (car (rassoc value choices))))
         (labels (and choices (delq nil (mapcar label (if (listp default) default (list default))))))
         (shown (if choices (string-join labels ",") (and default (format "%s" default))))
         (prompt (format-prompt title (unless (equal shown "") shown))))
    (cond
     ((equal type "array")
      (vconcat (mapcar (lambda (each) (cdr (assoc each choices)))
                       (completing-read-multiple prompt choices nil t nil nil shown))))
     (choices
      (let ((chosen (completing-read prompt (append (mapcar #'car choices) more) nil t nil nil
                                     (car labels))))
        (if (member chosen more) chosen (cdr (assoc chosen choices)))))
     ((member type '("integer" "number"))
      (let ((number (read-number prompt default)))
        (if (equal type "integer") (round number) number)))
     (t (read-string prompt nil nil default)))))

(defun sidecar--fill-form (talk question)
  "Read the answers to the form QUESTION of TALK.
After a quit it is there still, for later."
  (let* ((params (cdr question)) (fields (sidecar--fields params)) (none "No answer") (content nil)
         (is-choice (and (null (cdr fields)) (sidecar--choices (cdar fields))
                         (not (equal (plist-get (cdar fields) :type) "array"))))
         (is-declined (and (not is-choice)
                           (equal none (completing-read (format-prompt (plist-get params :message) "Answer")
                                                        (list "Answer" none) nil t nil nil "Answer")))))
    (unless is-declined
      (cl-loop for (name . field) in fields until is-declined
               do (let ((value (apply #'sidecar--read-field name field (and is-choice (list none)))))
                    (if (equal value none) (setq is-declined is-choice)
                      (setq content (append content (list (intern (concat ":" name)) value)))))))
    (sidecar--end-question talk (plist-get params :elicitationId)
                           (cond (is-declined '(:action "decline"))
                                 (content (list :action "accept" :content content))
                                 (t '(:action "accept"))))))

(defun sidecar--answer-with (kinds)
  "Answer the question of this buffer with its first option of KINDS."
  (unless (or sidecar--question sidecar--proposal)
    (user-error "Nothing is asked here; `sidecar-answer' goes to the question"))
  (let* ((params (cdr (or sidecar--question sidecar--proposal)))
         (option (cl-find-if (lambda (each) (member (plist-get each :kind) kinds))
                             (plist-get params :options))))
    (unless option (user-error "The question has no such answer"))
    (sidecar--end-question (sidecar--here) (plist-get params :permissionId) option
                           (and (string-prefix-p "allow" (plist-get option :kind))
                                (sidecar--part-answers)))))

(defun sidecar-allow ()
  "Allow what is asked, this time."
  (interactive nil sidecar-question-mode sidecar-proposal-mode)
  (sidecar--answer-with '("allow_once")))

(defun sidecar-allow-always ()
  "Always allow this in this session, as far as the answer names."
  (interactive nil sidecar-question-mode sidecar-proposal-mode)
  (sidecar--answer-with '("allow_always")))

(defun sidecar-reject ()
  "Reject what is asked."
  (interactive nil sidecar-question-mode sidecar-proposal-mode)
  (sidecar--answer-with '("reject_once")))

(defun sidecar-answer ()
  "Go to the question that waits for an answer, or fill in the form that does."
  (interactive)
  (let* ((talk (sidecar--here)) (question (car (sidecar--talk-questions talk))))
    (unless question (user-error "Nothing is asked"))
    (when (plist-get (cdr question) :elicitationId) (sidecar--fill-form talk question))
    (dolist (buffer (buffer-list))
      (when (eq question (buffer-local-value 'sidecar--proposal buffer))
        (pop-to-buffer buffer)
        (goto-char (overlay-start (car sidecar--parts))))
      (when (eq question (buffer-local-value 'sidecar--question buffer))
        (pop-to-buffer buffer '((display-buffer-reuse-window display-buffer-at-bottom)))))))

;;; Commands

;;;###autoload
(defun sidecar ()
  "Open the conversation of this project, and start its daemon if there is none."
  (interactive)
  (let ((talk (sidecar--here)))
    (pop-to-buffer (sidecar--chat talk))
    (goto-char (point-max))
    (sidecar--with-session talk #'ignore)))

(defun sidecar--submit (talk text when-busy &optional run)
  "Send TEXT to the conversation of TALK; WHEN-BUSY is \"queue\" or \"steer\".
RUN gets the turn."
  (sidecar--with-session
   talk
   (lambda ()
     (sidecar--report talk)
     (sidecar--request talk "sidecar/turn/start"
                       (list :sid (sidecar--talk-sid talk) :whenBusy when-busy
                             :input (vector (list :type "text" :text text)))
                       (lambda (started)
                         (setf (sidecar--talk-sent talk) (plist-get started :turnId))
                         (when run (funcall run (plist-get started :turnId))))
                       (lambda (problem)
                         (sidecar--say talk (format "not sent: %s\n%s" (plist-get problem :message) text)
                                       'error))))))

(defun sidecar-send ()
  "Send what is written, behind the running turn if there is one."
  (interactive nil sidecar-chat-mode)
  (if (< (point) sidecar--input)
      (goto-char (point-max))
    (let ((text (sidecar--take-input)))
      (unless (string-empty-p text) (sidecar--submit sidecar--talk text "queue")))))

(defun sidecar-steer (text)
  "Add TEXT to the running turn."
  (interactive (list (if (derived-mode-p 'sidecar-chat-mode) (sidecar--take-input)
                       (read-string "Steer: "))))
  (unless (string-empty-p text) (sidecar--submit (sidecar--here) text "steer")))

;;;###autoload
(defun sidecar-ask (text)
  "Ask TEXT; where the region is active, about that."
  (interactive "sPrompt: ")
  (let ((talk (sidecar--here))
        (about (if (and (use-region-p) buffer-file-name)
                   (format "\n\n%s, lines %d to %d:\n```\n%s\n```" (file-relative-name buffer-file-name)
                           (line-number-at-pos (region-beginning) t) (line-number-at-pos (region-end) t)
                           (buffer-substring-no-properties (region-beginning) (region-end)))
                 "")))
    (display-buffer (sidecar--chat talk))
    (sidecar--submit talk (concat text about) "queue")))

(defun sidecar--selected-lines ()
  "Return the first and the last line of the region, or the line of point twice."
  (let ((end (if (use-region-p) (region-end) (point))))
    (list (line-number-at-pos (if (use-region-p) (region-beginning) (point)) t)
          (line-number-at-pos (if (and (use-region-p) (> end (region-beginning))) (1- end) end) t))))

(defun sidecar--lines-name (first last)
  "Return FIRST and LAST in words."
  (if (= first last) (format "line %d" first) (format "lines %d to %d" first last)))

;;;###autoload
(defun sidecar-change (instruction)
  "Have the lines of the region, or this one, changed by INSTRUCTION.
The change is proposed in the text itself, and made once you allow it."
  (interactive (list (read-string (format "Change %s: " (apply #'sidecar--lines-name
                                                               (sidecar--selected-lines))))))
  (unless buffer-file-name (user-error "Only lines of a file can be changed, and this buffer has none"))
  (unless (string-blank-p instruction)
    (pcase-let* ((talk (sidecar--here)) (`(,first ,last) (sidecar--selected-lines))
                 (change (list :buffer (current-buffer) :first first :last last))
                 (name (file-relative-name (file-truename buffer-file-name) (sidecar--talk-root talk))))
      (deactivate-mark)
      (sidecar--submit talk
                       (format "Change only %s, @\"%s:%d-%d\", and do it by an edit: %s"
                               (sidecar--lines-name first last) name first last instruction)
                       "queue"
                       (lambda (turn) (setf (sidecar--talk-change talk) (plist-put change :turn turn)))))))

(defun sidecar--slash (name)
  "Send the command NAME, and show the conversation."
  (let ((talk (sidecar--here)))
    (display-buffer (sidecar--chat talk))
    (sidecar--submit talk (concat "/" name) "queue")))

(defun sidecar-compact ()
  "Condense the older part of the conversation."
  (interactive)
  (sidecar--slash "compact"))

(defun sidecar-preview ()
  "Say what a compaction would do."
  (interactive)
  (sidecar--slash "preview"))

(defun sidecar-undo ()
  "Take the last compaction back."
  (interactive)
  (sidecar--slash "undo"))

(defun sidecar-context ()
  "Say how full the window is, and with what."
  (interactive)
  (sidecar--slash "context"))

(defun sidecar-diff ()
  "Show what this conversation did to files."
  (interactive)
  (sidecar--slash "diff"))

(defun sidecar-new ()
  "Begin another conversation with the next prompt; the last one is kept."
  (interactive)
  (let ((talk (sidecar--here)))
    (setf (sidecar--talk-sid talk) nil
          (sidecar--talk-usage talk) nil
          (sidecar--talk-title talk) "")
    (with-current-buffer (sidecar--chat talk) (sidecar--begin))
    (message "The next prompt begins a new conversation")))

(defun sidecar--wait (talk method params)
  "Return the answer of TALK's daemon to METHOD with PARAMS."
  (unless (sidecar--live-p talk) (sidecar--start talk))
  (with-timeout (30 (user-error "The daemon does not answer"))
    (while (not (sidecar--talk-is-ready talk)) (accept-process-output nil 0.05))
    (let ((result 'none))
      (sidecar--request talk method params (lambda (found) (setq result found))
                        (lambda (problem) (setq result (list 'problem (sidecar--problem-text problem)))))
      (while (eq result 'none) (accept-process-output nil 0.05))
      (when (eq (car-safe result) 'problem) (user-error "%s" (cadr result)))
      result)))

(defun sidecar--sid-of (talk)
  "Return the id of the conversation of TALK, which is begun where there is none."
  (sidecar--with-session talk #'ignore)
  (with-timeout (30 (user-error "The daemon does not answer; `sidecar-log' has its last words"))
    (while (sidecar--talk-waiting talk) (accept-process-output nil 0.05)))
  (or (sidecar--talk-sid talk)
      (user-error "No conversation could be begun; `sidecar-log' has the daemon's last words")))

(defun sidecar--choose (prompt choices none)
  "Ask with PROMPT for one of CHOICES, pairs of a name and a value; return it.
Without any choices say NONE."
  (unless choices (user-error none))
  (let ((completion-extra-properties '(:display-sort-function identity :cycle-sort-function identity)))
    (cdr (assoc (completing-read prompt (mapcar #'car choices) nil t) choices))))

(defun sidecar-resume ()
  "Go on with a stored conversation of this folder."
  (interactive)
  (let* ((talk (sidecar--here))
         (found (sidecar--wait talk "sidecar/session/list" (list :cwd (sidecar--folder talk))))
         (sid (sidecar--choose
               "Conversation: "
               (mapcar (lambda (each)
                         (cons (format "%s (%d messages, %s)" (plist-get each :title)
                                       (plist-get each :messages) (substring (plist-get each :sid) 0 6))
                               (plist-get each :sid)))
                       (plist-get found :sessions))
               "There is no conversation about this folder yet; `sidecar' begins one")))
    (sidecar--open talk sid)))

(defun sidecar--open (talk sid)
  "Let TALK go on with the conversation SID."
  (setf (sidecar--talk-sid talk) sid)
  (with-current-buffer (sidecar--chat talk) (sidecar--begin))
  (display-buffer (sidecar--chat talk))
  (sidecar--request talk "sidecar/session/load" (list :sid sid :replay '(:lastTurns 30))
                    (lambda (result) (sidecar--take-snapshot talk result))))

(defun sidecar-import ()
  "Go on with a conversation that another agent had about this folder."
  (interactive)
  (let* ((talk (sidecar--here))
         (listed (sidecar--wait talk "sidecar/session/import"
                                 (list :listOnly t :cwd (sidecar--folder talk))))
         (chosen (sidecar--choose
                  "Conversation of another agent: "
                  (mapcar (lambda (each)
                            (cons (format "%s (%s, %s)" (plist-get each :title) (plist-get each :source)
                                          (plist-get each :id))
                                  (list :path (plist-get each :path) :id (plist-get each :id)
                                        :source (plist-get each :source))))
                          (plist-get listed :sessions))
                  "There is no conversation of another agent about this folder"))
         (made (sidecar--wait talk "sidecar/session/import" chosen)))
    (sidecar--open talk (plist-get made :sid))))

(defun sidecar-interrupt ()
  "Stop the running turn."
  (interactive)
  (let ((talk (sidecar--here)))
    (unless (sidecar--talk-sid talk) (user-error "Nothing runs"))
    (sidecar--request talk "sidecar/turn/interrupt" (list :sid (sidecar--talk-sid talk))
                      (lambda (done) (message (if (plist-get done :accepted) "Stopped" "Nothing runs"))))))

(defun sidecar--document (talk path)
  "Return a buffer with the document PATH of the conversation of TALK."
  (let* ((uri (format "sidecar-session:///%s/%s" (sidecar--sid-of talk) path))
         (found (sidecar--wait talk "workspace/textDocumentContent" (list :uri uri))))
    (with-current-buffer (get-buffer-create (format "*sidecar %s*" (file-name-nondirectory path)))
      (let ((inhibit-read-only t))
        (erase-buffer)
        (insert (plist-get found :text))
        (goto-char (point-min)))
      (view-mode 1)
      (setq sidecar--talk talk)
      (current-buffer))))

(defun sidecar-transcript ()
  "Show the conversation as a document."
  (interactive)
  (pop-to-buffer (sidecar--document (sidecar--here) "transcript.md")))

(defun sidecar-compare ()
  "Compare the conversation before and after the last compaction with Ediff."
  (interactive)
  (let* ((talk (sidecar--here))
         (found (sidecar--wait talk "sidecar/compact/list" (list :sid (sidecar--sid-of talk))))
         (last (car (last (plist-get found :compactions)))))
    (unless last (user-error "Nothing was compacted yet; `sidecar-compact' does it"))
    (let ((base (format "compaction/%s/" (plist-get last :compactionId))))
      (sidecar--document talk (concat base "facts.md"))
      (ediff-buffers (sidecar--document talk (concat base "before.md"))
                     (sidecar--document talk (concat base "after.md"))))))

(defun sidecar--choose-option (id)
  "Choose a value of the config option ID."
  (let* ((talk (sidecar--here))
         (sid (sidecar--sid-of talk))
         (option (cl-find id (sidecar--talk-options talk) :test #'equal
                          :key (lambda (each) (plist-get each :id))))
         (value (sidecar--choose (format "%s: " (plist-get option :name))
                                 (mapcar (lambda (each) (cons (plist-get each :name) (plist-get each :value)))
                                         (plist-get option :options))
                                 "There is nothing to choose")))
    (sidecar--request talk "sidecar/session/setConfigOption"
                      (list :sid sid :configId id :value value)
                      (lambda (result)
                        (setf (sidecar--talk-options talk) (plist-get result :configOptions))
                        (force-mode-line-update t)))))

(defun sidecar-choose-model ()
  "Choose the model, from the next prompt on."
  (interactive)
  (sidecar--choose-option "model"))

(defun sidecar-choose-mode ()
  "Choose when you are asked."
  (interactive)
  (sidecar--choose-option "permissions"))

(defun sidecar-rewind ()
  "Go back to before a prompt, and take files back too if you like."
  (interactive)
  (let* ((talk (sidecar--here)) (sid (sidecar--sid-of talk)) (kinds (make-hash-table :test #'equal))
         before prompts)
    (dolist (node (plist-get (sidecar--wait talk "sidecar/session/tree" (list :sid sid)) :nodes))
      (puthash (plist-get node :id) (plist-get node :kind) kinds))
    (dolist (node (plist-get (sidecar--wait talk "sidecar/session/read" (list :sid sid :limit 1000)) :nodes))
      (let ((kind (gethash (plist-get node :id) kinds)))
        (when (equal kind "user")
          (push (cons (format "%d %s" (1+ (length prompts))
                              (truncate-string-to-width
                               (replace-regexp-in-string
                                "[ \n\t]+" " "
                                (or (plist-get (car (plist-get node :blocks)) :text) "an image"))
                               70))
                      (or before :null))
                prompts))
        (unless (member kind '("note" "branch")) (setq before (plist-get node :id)))))
    (let ((to (sidecar--choose "Go back to before: " prompts "There is no prompt to go back to yet")))
      (sidecar--request
       talk "sidecar/session/rewind"
       (list :sid sid :toNode to :expectHead :null
             :files (if (y-or-n-p "Take the changes of files back too? ") "restore" "keep"))
       (lambda (done)
         (dolist (file (plist-get done :restoredFiles))
           (sidecar--say talk (format "· %s: %s" (sidecar--name (plist-get file :uri))
                                      (or (plist-get file :reason) (plist-get file :outcome))))))))))

(defun sidecar-restart ()
  "Start the daemon of this project again, and go on with the conversation."
  (interactive)
  (let ((talk (sidecar--here)))
    (if (not (sidecar--live-p talk))
        (sidecar--start talk)
      (setf (sidecar--talk-is-restarting talk) t)
      (delete-process (sidecar--talk-process talk)))))

(defun sidecar-log ()
  "Show what the daemon of this project has logged."
  (interactive)
  (let ((name (file-name-nondirectory (sidecar--talk-root (sidecar--here)))))
    (pop-to-buffer (get-buffer-create (format " *sidecar log %s*" name)))
    (goto-char (point-max))))

(provide 'sidecar)
;;; sidecar.el ends here
