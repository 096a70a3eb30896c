/* An agent for Windows: waits for the file that its argument names, asks once, and exits with code 7. */
#include <stdio.h>
#include <string.h>
#include <windows.h>

static void emit(const char *event)
{
    puts(event);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char answer[65536] = "";
    while (argc > 1 && GetFileAttributesA(argv[1]) == INVALID_FILE_ATTRIBUTES)
        Sleep(50);
    emit("{\"type\":\"session.started\",\"summary_normal\":\"Tidying your mailbox.\"}");
    emit("{\"type\":\"awaiting.confirmation\",\"event_id\":\"evt_1\",\"action\":\"Delete 12 letters.\",\"irreversible\":true,"
         "\"consequence\":\"They cannot be brought back.\",\"tool\":\"delete_mail\",\"args\":{\"folder\":\"old\"}}");
    if (fgets(answer, sizeof answer, stdin) && strstr(answer, "accept")) {
        emit("{\"type\":\"tool.invoked\",\"tool\":\"delete_mail\",\"args\":{\"folder\":\"old\"},\"irreversible\":true,"
             "\"summary_normal\":\"Deleting the letters.\"}");
        emit("{\"type\":\"tool.completed\",\"tool\":\"delete_mail\",\"status\":\"success\"}");
    }
    emit("{\"type\":\"session.completed\",\"summary_normal\":\"Your mailbox is tidy.\"}");
    return 7;
}
