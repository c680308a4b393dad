;;; sidecar.el --- Conversations of the sidecar daemon, over Eglot  -*- lexical-binding: t; -*-

;; Version: 0.1.0
;; Package-Requires: ((emacs "27.1") (eglot "1.17"))
;; Keywords: tools

;;; Commentary:

;; The daemon is the language server of the buffers in which you start it with `sidecar-start'; Eglot gives it
;; their unsaved text and shows its hints, its questions and its progress.  Each project has one conversation,
;; which begins with the first prompt.  Everything goes through workspace/executeCommand and the daemon's own
;; requests; nothing is kept here but the name of the conversation.

;;; Code:

(require 'cl-lib)
(require 'eglot)

(defgroup sidecar nil
  "Agent conversations beside the editor."
  :group 'tools)

(defcustom sidecar-command '("sidecar")
  "The daemon's program and its arguments."
  :type '(repeat string))

(defvar sidecar--sessions (make-hash-table :test #'eq :weakness 'key)
  "The conversation of each Eglot server.")

;;;###autoload
(defun sidecar-start ()
  "Make the sidecar the language server of this project's buffers of this mode."
  (interactive)
  (let ((eglot-server-programs `((,major-mode . ,sidecar-command))))
    (call-interactively #'eglot)))

(defun sidecar--server ()
  "Return the sidecar of this buffer."
  (or (and (eglot-server-capable :experimental :sidecar) (eglot-current-server))
      (user-error "No sidecar here: M-x sidecar-start")))

(defun sidecar--root ()
  "Return the folder a conversation works in."
  (let ((project (project-current)))
    (directory-file-name (expand-file-name (if project (project-root project) default-directory)))))

(defun sidecar--request (server method params run)
  "Ask SERVER for METHOD with PARAMS, and call RUN with the result."
  (jsonrpc-async-request
   server method params
   :success-fn run
   :error-fn (lambda (problem)
               (let ((hint (plist-get (plist-get problem :data) :hint)))
                 (message "sidecar: %s%s" (plist-get problem :message) (if hint (concat "; " hint) ""))))
   :timeout nil))

(defun sidecar--execute (server command params run)
  "Have SERVER run COMMAND with PARAMS, and call RUN with the result."
  (sidecar--request server :workspace/executeCommand
                    (list :command command :arguments (vector params)) run))

(defun sidecar--with-session (run)
  "Call RUN with the server and its conversation, begun if there is none."
  (let* ((server (sidecar--server))
         (sid (gethash server sidecar--sessions)))
    (if sid
        (funcall run server sid)
      (sidecar--execute
       server "sidecar.new" (list :cwd (sidecar--root))
       (lambda (session)
         (puthash server (plist-get session :sid) sidecar--sessions)
         (funcall run server (plist-get session :sid)))))))

(defun sidecar--show (text)
  "Add TEXT to the buffer of answers, and show it."
  (with-current-buffer (get-buffer-create "*sidecar*")
    (goto-char (point-max))
    (insert text "\n")
    (display-buffer (current-buffer))))

;;;###autoload
(defun sidecar-prompt (text)
  "Ask TEXT; where the region is active, about that."
  (interactive "sPrompt: ")
  (let* ((about (if (use-region-p)
                    (format "\n\n%s:\n```\n%s\n```" (file-relative-name (or buffer-file-name (buffer-name)))
                            (buffer-substring-no-properties (region-beginning) (region-end)))
                  ""))
         (input (vector (list :type "text" :text (concat text about)))))
    (sidecar--with-session
     (lambda (server sid)
       (sidecar--show (format "\n> %s\n" text))
       (sidecar--execute
        server "sidecar.prompt" (list :sid sid :input input)
        (lambda (ran)
          (let ((reason (plist-get ran :stopReason)))
            (sidecar--show (if (equal reason "end_turn") (plist-get ran :text) (format "(%s)" reason))))))))))

(defun sidecar-new ()
  "Let the next prompt begin another conversation; the last one stays stored."
  (interactive)
  (remhash (sidecar--server) sidecar--sessions)
  (message "The next prompt begins a new conversation"))

(defun sidecar-resume ()
  "Go on with a stored conversation of this folder."
  (interactive)
  (let* ((server (sidecar--server))
         (list (jsonrpc-request server :sidecar/session/list (list :cwd (sidecar--root))))
         (named (cl-loop for one across (plist-get list :sessions)
                         for sid = (plist-get one :sid)
                         collect (cons (format "%s (%s)" (plist-get one :title) (substring sid 0 8)) sid)))
         (chosen (assoc (completing-read "Conversation: " named nil t) named)))
    (sidecar--request server :sidecar/session/load (list :sid (cdr chosen))
                      (lambda (_loaded)
                        (puthash server (cdr chosen) sidecar--sessions)
                        (message "Goes on: %s" (car chosen))))))

(defun sidecar-interrupt ()
  "Stop the running turn."
  (interactive)
  (sidecar--with-session
   (lambda (server sid)
     (sidecar--execute server "sidecar.interrupt" (list :sid sid)
                       (lambda (done)
                         (message (if (eq t (plist-get done :accepted)) "Stopped" "Nothing runs")))))))

(defun sidecar-compact ()
  "Condense the older part of the conversation."
  (interactive)
  (sidecar--with-session
   (lambda (server sid)
     (sidecar--execute server "sidecar.compact" (list :sid sid)
                       (lambda (begun)
                         (message "%s%s" (plist-get begun :disposition)
                                  (if-let* ((reason (plist-get begun :reason))) (concat ": " reason) "")))))))

(defun sidecar-undo ()
  "Take the last compaction back."
  (interactive)
  (sidecar--with-session
   (lambda (server sid)
     (sidecar--execute server "sidecar.uncompact" (list :sid sid)
                       (lambda (done)
                         (message "Undone: %d tokens are back" (plist-get done :restoredTokens)))))))

(defun sidecar-context ()
  "Say how full the window is, and with which files."
  (interactive)
  (sidecar--with-session
   (lambda (server sid)
     (sidecar--execute
      server "sidecar.context" (list :sid sid)
      (lambda (usage)
        (sidecar--request
         server :sidecar/context/files (list :sid sid)
         (lambda (context)
           (message "%s" (string-join (sidecar--describe usage (plist-get context :files)) "\n")))))))))

(defun sidecar--describe (usage files)
  "Return lines that tell USAGE and FILES."
  (cons (if (zerop (plist-get usage :window))
            (format "%d tokens, window unknown" (plist-get usage :used))
          (format "%d of %d tokens (%d%%)" (plist-get usage :used) (plist-get usage :window) (plist-get usage :pct)))
        (cl-loop for file across files
                 collect (format "%s: %d tokens%s"
                                 (file-name-nondirectory (eglot-uri-to-path (plist-get file :uri)))
                                 (plist-get file :tokens)
                                 (if (eq t (plist-get file :stale)) ", changed since it was read" "")))))

(provide 'sidecar)
;;; sidecar.el ends here
